"""Users of a cluster that is not running: their SCRAM credentials, written into its metadata store.

The first user has to exist before the first broker starts where brokers log in with SCRAM themselves (KIP-900). With
the embedded store no broker may run on the data directory; a store that several brokers share can be changed at any
time. What lives elsewhere: the same in a running cluster (`kwire.handlers.security`), the command (`kwire.cli.user`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from kwire.base.errors import KafkaError
from kwire.cluster.controller.credentials import check_iterations, check_name
from kwire.cluster.metadata.credentials import pack_credential, unpack_credential
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, Check, Conflict, Write
from kwire.security.scram_credentials import ScramMechanism, make_credential, random_text
from kwire.server.errors import StartError
from kwire.server.offline import offline_store, write_access

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.store.store import Entry, MetadataStore


class User(NamedTuple):
    """A user's credential, without its keys."""

    name: str
    mechanism: ScramMechanism
    iterations: int


class Users:
    """The users in a metadata store."""

    def __init__(self, store: MetadataStore, doors: Doors) -> None:
        self._store = store
        self._doors = doors

    async def all(self) -> list[User]:
        """All credentials, by user and mechanism."""
        found = []
        for key, entry in (await self._read(keys.SCRAM)).items():
            mechanism, name = keys.scram_user(key)
            found.append(User(name, ScramMechanism(mechanism), unpack_credential(key, entry.value).iterations))
        return sorted(found)

    async def put(self, name: str, mechanisms: Sequence[ScramMechanism], password: str, iterations: int) -> None:
        """Create or replace a user's credentials. `StartError`."""
        try:
            check_name(name)
            check_iterations(iterations)
        except KafkaError as error:
            raise StartError(error.message) from None
        if not password:
            raise StartError("the password is empty")
        present = await self._read(keys.SCRAM)
        written = {}
        for mechanism in mechanisms:
            salt = random_text(self._doors.random.randbytes).encode()
            credential = make_credential(mechanism, password, salt, iterations)
            written[keys.scram_key(mechanism, name)] = pack_credential(credential)
        await self._write(present, written)

    async def delete(self, name: str, mechanisms: Sequence[ScramMechanism]) -> list[ScramMechanism]:
        """Delete a user's credentials; the mechanisms of which there was one. `StartError` if there was none."""
        present = await self._read(keys.SCRAM)
        gone = [each for each in mechanisms if keys.scram_key(each, name) in present]
        if not gone:
            raise StartError(f"the user {name!r} has no such credential")
        await self._write(present, dict.fromkeys(keys.scram_key(each, name) for each in gone))
        return gone

    async def _read(self, prefix: str) -> dict[str, Entry]:
        return (await self._store.read(prefix))[1]

    async def _write(self, present: dict[str, Entry], written: dict[str, bytes] | dict[str, None]) -> None:
        checks = [Check(key, present[key].version if key in present else ABSENT) for key in written]
        try:
            await write_access(self._store, checks, [Write(key, value) for key, value in written.items()])
        except Conflict:
            raise StartError("the user was changed at the same time; try again") from None


@asynccontextmanager
async def users_of(config: KafkaConfig, doors: Doors, *, create: bool) -> AsyncIterator[Users]:
    """The users in the store that the configuration names. ``create``: the store may be new. `StartError` in one line,
    also if a broker uses the embedded store."""
    async with offline_store(config, doors, create=create) as store:
        yield Users(store, doors)
