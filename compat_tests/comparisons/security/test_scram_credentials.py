"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554), by requests and by Kafka's own tool."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import Wire, facts
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import wait_until
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest, UserName


def put(name: str, mechanism: int = 1, iterations: int = 4096, **fields: Any) -> ScramCredentialUpsertion:
    """An upsertion."""
    values = {"salt": b"salt", "salted_password": b"p" * 32, **fields}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **values)


def drop(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    """A deletion."""
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


class Credentials:
    """Both requests over one connection; Apache Kafka describes what it has written a moment later."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def alter(self, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> list[Any]:
        """(user, code, message) of each result, in order."""
        request = AlterUserScramCredentialsRequest(
            deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
            upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
        )
        return [[each.user, each.error_code, each.error_message] for each in self._wire.call(request, 0).results]

    def describe(self, users: Sequence[str] | None) -> Any:
        """The response; mechanisms in order of their codes, because Kafka's order is that of its memory addresses."""
        names = None if users is None else [UserName(name=each) for each in users]
        response = self._wire.call(DescribeUserScramCredentialsRequest(users=names), 0)
        for each in response.results:
            each.credential_infos.sort(key=lambda info: info.mechanism)
        return [facts(response), response.error_message, [each.error_message for each in response.results]]

    def await_mechanisms(self, user: str, *mechanisms: int) -> None:
        """Wait until a user has credentials of exactly these mechanisms."""
        wait_until(lambda: sorted(self._iterations(user)) == sorted(mechanisms), 10, f"credentials of {user}")

    def await_iterations(self, user: str, iterations: int) -> None:
        """Wait until a user's credential of the first mechanism has so many iterations."""
        wait_until(lambda: self._iterations(user).get(1) == iterations, 10, f"the credential of {user}")

    def _iterations(self, user: str) -> dict[int, int]:
        """The iterations of a user's credentials by mechanism."""
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=user)])
        (result,) = self._wire.call(request, 0).results
        return {each.mechanism: each.iterations for each in result.credential_infos}


@pytest.fixture
def credentials(wire: Wire) -> Credentials:
    return Credentials(wire)


def test_credentials_are_created_described_changed_and_deleted(
    credentials: Credentials, new_name: Names, observe: Observations
) -> None:
    one, two = new_name("one"), new_name("two")
    observe("create", credentials.alter(put(one), put(two, 2, 16384)))
    credentials.await_mechanisms(two, 2)
    observe("the other mechanism", credentials.alter(put(one, 2, 5000)))
    credentials.await_mechanisms(one, 1, 2)
    observe("described", credentials.describe([one, two]))
    observe("replace", credentials.alter(put(one, 1, 8192)))
    observe("delete", credentials.alter(drop(two, 2), put(one, 2, 6000)))
    credentials.await_mechanisms(two)
    observe("described again", credentials.describe([two, one]))
    observe("clean", [credentials.alter(drop(one, 1)), credentials.alter(drop(one, 2))])
    credentials.await_mechanisms(one)


def test_refused_alterations(credentials: Credentials, new_name: Names, observe: Observations) -> None:
    name = new_name("user")
    observe("nothing", credentials.alter())
    observe("no name", credentials.alter(put(""), drop("")))
    observe("mechanisms", [credentials.alter(put(name, code)) for code in (0, 3, -1, 127)])
    observe("deleted mechanisms", [credentials.alter(drop(name, code)) for code in (0, 3)])
    observe("iterations", [credentials.alter(put(name, 1, count)) for count in (-1, 0, 4095, 16385, 2**31 - 1)])
    observe("iterations of SHA-512", [credentials.alter(put(name, 2, count)) for count in (4095, 16385)])
    observe("all wrong", credentials.alter(put("", 9, 1)))
    observe("wrong mechanism and count", credentials.alter(put(name, 9, 1)))
    observe("absent", credentials.alter(drop(name)))
    observe("no password", credentials.alter(put(name, salted_password=b"")))
    observe("still absent", credentials.describe([name]))


def test_a_user_is_altered_once_in_a_request(credentials: Credentials, new_name: Names, observe: Observations) -> None:
    name, other = new_name("user"), new_name("other")
    observe("two upsertions", credentials.alter(put(name, 1), put(name, 2), put(other)))
    credentials.await_mechanisms(other, 1)
    observe("three", credentials.alter(put(name, 1), put(name, 2), put(name, 1)))
    observe("deletion and upsertion", credentials.alter(drop(other), put(other)))
    observe("two deletions", credentials.alter(drop(other, 1), drop(other, 1)))
    observe("a failed deletion and an upsertion", credentials.alter(drop(name), put(name)))
    observe("a failed upsertion and another", credentials.alter(put(name, 1, 1), put(name)))
    observe("an upsertion and a failed one", credentials.alter(put(name), put(name, 1, 1)))
    observe("described", credentials.describe([name, other]))
    observe("clean", credentials.alter(drop(other)))
    credentials.await_mechanisms(other)


def test_unusual_values_are_kept(credentials: Credentials, new_name: Names, observe: Observations) -> None:
    names = [new_name("café"), new_name("a,b=c/%d"), new_name("漢字 😀"), " ", new_name("x") + "\x00", "y" * 250]
    observe("names", sorted(credentials.alter(*map(put, names))))
    for name in names:
        credentials.await_mechanisms(name, 1)
    observe("described", [credentials.describe([name]) for name in names])
    observe("no salt", credentials.alter(put(names[0], salt=b"")))
    observe("a long salt", credentials.alter(put(names[0], salt=b"s" * 5000)))
    observe("a short password", credentials.alter(put(names[0], salted_password=b"p")))
    observe("clean", sorted(credentials.alter(*map(drop, names))))
    for name in names:
        credentials.await_mechanisms(name)


def test_describing_users(credentials: Credentials, new_name: Names, observe: Observations) -> None:
    names = [new_name(f"user{number}") for number in range(5)]
    credentials.alter(*(put(name) for name in names))
    for name in names:
        credentials.await_mechanisms(name, 1)
    observe("everybody", [credentials.describe(None), credentials.describe([])])
    observe("some", credentials.describe([names[3], names[1]]))
    observe("twice", credentials.describe([names[0], names[0], names[1], "nobody", "nobody", names[0]]))
    observe("nobody", credentials.describe(["", "nobody"]))
    observe("order of results", credentials.alter(*map(drop, names[:3]), *(put(name, 2) for name in names[3:])))
    for name in names[3:]:
        credentials.await_mechanisms(name, 1, 2)
    for mechanism in (1, 2):
        credentials.alter(*(drop(name, mechanism) for name in names[3:]))
        credentials.await_mechanisms(names[3], *range(mechanism + 1, 3))


@pytest.mark.parametrize("seed", range(3))
def test_random_alterations(credentials: Credentials, new_name: Names, observe: Observations, seed: int) -> None:
    rng = random.Random(seed)
    names = [new_name(f"user{number}") for number in range(12)]

    def change() -> ScramCredentialUpsertion | ScramCredentialDeletion:
        name, mechanism = (
            rng.choice([*names, ""] if rng.random() < 0.1 else names),
            rng.choice([1, 2, 1, 2, 1, 2, 0, 3]),
        )
        if rng.random() < 0.4:
            return drop(name, mechanism)
        return put(name, mechanism, rng.choice([4096, 5000, 16384, 4095, 16385]))

    for number in range(40):
        changes = [change() for _ in range(rng.randrange(1, 6))]
        observe(f"request {number}", sorted(credentials.alter(*changes), key=lambda result: str(result[0])))
    last = names[0]
    credentials.alter(put(last, 1, 4242))
    credentials.await_iterations(last, 4242)
    observe("in the end", credentials.describe(names))
    for name in names:
        for mechanism in (1, 2):
            credentials.alter(drop(name, mechanism))
    credentials.await_mechanisms(last)
