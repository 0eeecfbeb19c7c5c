"""Users of a running cluster who log in with SCRAM: DescribeUserScramCredentials, AlterUserScramCredentials (KIP-554).

The password does not leave this process: the request has what it is salted and hashed to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode
from kwire.cli.connection import CommandError, check
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest, UserName
from kwire.security.scram_credentials import ScramMechanism, random_text
from kwire.server.users import User

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.cli.connection.cluster import Cluster

VERSION: Final = 0


class RunningUsers:
    """The users of a running cluster. ``random_bytes`` makes the salts."""

    def __init__(self, cluster: Cluster, random_bytes: Callable[[int], bytes]) -> None:
        self._cluster = cluster
        self._random_bytes = random_bytes

    async def all(self) -> list[User]:
        """All credentials, by user and mechanism. `CommandError`."""
        return await self._described(None)

    async def put(self, name: str, mechanisms: Sequence[ScramMechanism], password: str, iterations: int) -> None:
        """Create or replace a user's credentials. `CommandError`."""
        if not password:
            raise CommandError("the password is empty")
        for mechanism in mechanisms:  # Kafka alters a user once in a request
            salt = random_text(self._random_bytes).encode()
            upsertion = ScramCredentialUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=iterations,
                salt=salt,
                salted_password=mechanism.salted_password(password, salt, iterations),
            )
            await self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def delete(self, name: str, mechanisms: Sequence[ScramMechanism]) -> list[ScramMechanism]:
        """Delete a user's credentials; the mechanisms of which there was one. `CommandError`."""
        present = [each.mechanism for each in await self._described(name)]
        gone = [each for each in mechanisms if each in present] or list(mechanisms[:1])  # the broker says what is wrong
        for each in gone:
            deletion = ScramCredentialDeletion(name=name, mechanism=each)
            await self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))
        return gone

    async def _described(self, name: str | None) -> list[User]:
        users = None if name is None else [UserName(name=name)]
        response = await self._cluster.call(DescribeUserScramCredentialsRequest(users=users), max_version=VERSION)
        check(response.error_code, "users", response.error_message)
        found = []
        for result in response.results:
            if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                check(result.error_code, f"user {result.user}", result.error_message)
            for each in result.credential_infos:
                found.append(User(result.user, ScramMechanism(each.mechanism), each.iterations))
        return sorted(found)

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        response = await self._cluster.call(request, max_version=VERSION)
        for result in response.results:
            check(result.error_code, f"user {result.user}", result.error_message)
