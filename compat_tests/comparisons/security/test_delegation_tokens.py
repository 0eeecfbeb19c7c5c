"""Delegation tokens (KIP-48): the four requests, and logins with a token."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from compat_tests.comparisons.security.secured import LoginFailed, logged_in, logged_in_as, started
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kwire.codec.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.codec.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kwire.codec.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.security.sasl.scram import ClientScram
from kwire.security.scram_credentials import ScramMechanism

HOUR_MS = 3_600_000
MINUTE_MS = 60_000

Login = Callable[[str], WireClient]


@pytest.fixture(scope="module")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with delegation tokens."""
    settings = {
        "delegation.token.secret.key": "the-secret-of-all-tokens",
        "delegation.token.max.lifetime.ms": str(10 * HOUR_MS),
        "delegation.token.expiry.time.ms": str(2 * HOUR_MS),
        "delegation.token.expiry.check.interval.ms": "500",
    }
    yield from started(broker_kind, tmp_path_factory.mktemp("secured"), settings)


@pytest.fixture(scope="module")
def without_tokens(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker without a secret key."""
    yield from started(broker_kind, tmp_path_factory.mktemp("without-tokens"), {})


@pytest.fixture
def login(secured: SecuredBroker) -> Iterator[Login]:
    """``login("alice")``: a connection of that user."""
    clients: list[WireClient] = []

    def make(name: str) -> WireClient:
        clients.append(logged_in_as(secured, name))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def create(
    client: WireClient, version: int = 3, renewers: Sequence[tuple[str, str]] = (), lifetime_ms: int = -1, **fields: Any
) -> Any:
    """CreateDelegationToken, by default for oneself."""
    owner = {"owner_principal_type": None, "owner_principal_name": None, **fields} if version >= 3 else {}
    renewing = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers]
    request = CreateDelegationTokenRequest(renewers=renewing, max_lifetime_ms=lifetime_ms, **owner)
    return client.call(request, version)


def facts(created: Any) -> list[Any]:
    """What must be equal of a created token: times as durations."""
    return [
        created.error_code,
        [created.principal_type, created.principal_name],
        [created.token_requester_principal_type, created.token_requester_principal_name],
        created.expiry_timestamp_ms - created.issue_timestamp_ms,
        created.max_timestamp_ms - created.issue_timestamp_ms,
        [len(created.token_id), len(created.hmac)],
    ]


def described(client: WireClient, version: int = 3, owners: Sequence[str] | None = None) -> Any:
    """DescribeDelegationToken: the error, and the facts of the tokens in no certain order."""
    named = None
    if owners is not None:
        named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
    response = client.call(DescribeDelegationTokenRequest(owners=named), version)
    return response.error_code, {each.token_id: each for each in response.tokens}


def await_token(client: WireClient, token: Any, *, there: bool = True) -> Any:
    """Wait until a token is described, or is gone."""
    wait_until(lambda: (token.token_id in described(client)[1]) == there, 10, f"token {token.token_id}")
    return described(client)[1].get(token.token_id)


def renew(client: WireClient, hmac: bytes, period_ms: int = -1, version: int = 2) -> tuple[int, int]:
    """RenewDelegationToken: error and new expiry."""
    response = client.call(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), version)
    return response.error_code, response.expiry_timestamp_ms


def expire(client: WireClient, hmac: bytes, period_ms: int = -1, version: int = 2) -> tuple[int, int]:
    """ExpireDelegationToken: error and new expiry."""
    response = client.call(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), version)
    return response.error_code, response.expiry_timestamp_ms


def away(result: tuple[int, int]) -> list[int]:
    """Error, and how many minutes from now the expiry is (or the number itself, if it is no time)."""
    code, expiry_ms = result
    distance = expiry_ms - time.time_ns() // 1_000_000
    return [code, expiry_ms if expiry_ms < 10**12 else -(-distance // MINUTE_MS)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tokens_are_created(login: Login, observe: Observations, version: int) -> None:
    alice = login("alice")
    for lifetime_ms in (-1, 0, 1, 1000, HOUR_MS, 5 * HOUR_MS, 11 * HOUR_MS, 2**63 - 1, -(2**63)):
        observe(f"lifetime {lifetime_ms}", facts(create(alice, version, lifetime_ms=lifetime_ms)))
    for renewers in ([("User", "bob")], [("User", "")], [("User", "bob")] * 2, [("Group", "bob")], [("", "bob")]):
        observe(f"renewers {renewers}", facts(create(alice, version, renewers=renewers)))


def test_tokens_for_others(login: Login, observe: Observations) -> None:
    alice = login("alice")
    for kind, name in (("User", "bob"), ("User", ""), ("Group", "admins"), ("", "x"), ("User", "alice")):
        made = create(alice, owner_principal_type=kind, owner_principal_name=name)
        observe(f"{kind}:{name}", facts(made))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tokens_are_described(login: Login, observe: Observations, version: int) -> None:
    alice, bob = login("alice"), login("bob")
    made = create(alice, renewers=[("User", "carol"), ("User", "dave")])
    await_token(alice, made)
    token = described(alice, version)[1][made.token_id]
    seen = [token.principal_name, token.token_requester_principal_name, token.hmac == made.hmac]
    seen += [[(each.principal_type, each.principal_name) for each in token.renewers]]
    seen += [
        getattr(token, f"{name}_timestamp") == getattr(made, f"{name}_timestamp_ms")
        for name in ("issue", "expiry", "max")
    ]
    observe("the token", seen)
    for owners in (None, ["alice"], ["bob"], ["carol"], ["nobody"], ["nobody", "alice"]):
        for name, client in (("alice", alice), ("bob", bob)):
            code, tokens = described(client, version, owners)
            observe(f"{name} sees {owners}", [code, made.token_id in tokens])
    response = alice.call(DescribeDelegationTokenRequest(owners=[]), version)
    observe("no owners", [response.error_code, response.tokens])


def test_tokens_are_renewed(login: Login, observe: Observations) -> None:
    alice, bob, carol = login("alice"), login("bob"), login("carol")
    made = create(alice, renewers=[("User", "carol")])
    await_token(alice, made)
    hmac = bytes(made.hmac)
    observe("a stranger", [renew(bob, hmac), expire(bob, hmac)])
    observe("unknown", [renew(alice, b"x" * 64), renew(alice, b""), expire(alice, b""), renew(alice, hmac[:-1])])
    for period_ms in (-1, 0, HOUR_MS, 3 * HOUR_MS, 2**63 - 1, -(2**63)):
        observe(f"owner, {period_ms}", away(renew(alice, hmac, period_ms)))
    observe("renewer", away(renew(carol, hmac, HOUR_MS)))
    observe("version 1", away(renew(carol, hmac, HOUR_MS, version=1)))
    for_bob = create(alice, owner_principal_type="User", owner_principal_name="bob")
    await_token(bob, for_bob)
    observe("the requester", renew(alice, bytes(for_bob.hmac)))
    observe("whose it is", away(renew(bob, bytes(for_bob.hmac))))


def test_tokens_expire(login: Login, observe: Observations) -> None:
    alice, carol = login("alice"), login("carol")
    made = create(alice, renewers=[("User", "carol")])
    await_token(alice, made)
    hmac = bytes(made.hmac)
    for period_ms in (HOUR_MS, 3 * HOUR_MS, 20 * HOUR_MS, 2**63 - 1):
        observe(f"in {period_ms}", away(expire(alice, hmac, period_ms)))
    observe("by the renewer", away(expire(carol, hmac, HOUR_MS, version=1)))
    observe("at once", away(expire(alice, hmac, -5)))
    await_token(alice, made, there=False)
    observe("gone", [renew(alice, hmac), expire(alice, hmac)])
    short = bytes(create(alice, lifetime_ms=1).hmac)
    await_token(alice, create(alice))  # the broker knows the one before, too
    wait_until(lambda: renew(alice, short)[0] != ErrorCode.DELEGATION_TOKEN_EXPIRED, 60, "the sweep")
    observe("swept", renew(alice, short))


def test_a_token_logs_in_as_its_owner(secured: SecuredBroker, login: Login, observe: Observations) -> None:
    alice = login("alice")
    made = create(alice, owner_principal_type="User", owner_principal_name="bob")
    await_token(alice, made)
    password = base64.b64encode(bytes(made.hmac)).decode()
    for mechanism in ScramMechanism:
        exchange = ClientScram(mechanism, made.token_id, password, os.urandom, by_token=True)
        with logged_in(secured, mechanism.mechanism_name, exchange) as client:
            answers = [create(client), renew(client, bytes(made.hmac)), expire(client, bytes(made.hmac))]
            observe(mechanism.mechanism_name, [facts(answers[0]), *answers[1:], described(client)[0]])
    wrong = ClientScram(ScramMechanism.SHA_256, made.token_id, password[:-4] + "AAA=", os.urandom, by_token=True)
    with pytest.raises(LoginFailed):
        logged_in(secured, "SCRAM-SHA-256", wrong)
    not_a_token = ClientScram(ScramMechanism.SHA_256, made.token_id, password, os.urandom)
    with pytest.raises(LoginFailed):
        logged_in(secured, "SCRAM-SHA-256", not_a_token)
    assert expire(alice, bytes(made.hmac))[0] == 63
    with logged_in_as(secured, "bob") as bob:
        assert expire(bob, bytes(made.hmac))[0] == 0
        await_token(bob, made, there=False)
    gone = ClientScram(ScramMechanism.SHA_256, made.token_id, password, os.urandom, by_token=True)
    with pytest.raises(LoginFailed):
        logged_in(secured, "SCRAM-SHA-256", gone)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_security_there_are_no_tokens(broker: Broker, observe: Observations, version: int) -> None:
    with WireClient(broker.bootstrap) as client:
        older = min(version, 2)
        observe("create", facts(create(client, version)))
        observe("for a group", facts(create(client, version, renewers=[("Group", "x")])))
        observe("describe", described(client, version))
        observe("renew", renew(client, b"x", version=older))
        observe("expire", expire(client, b"x", version=older))
        if version == 3:
            for_bob = create(client, version, owner_principal_type="User", owner_principal_name="bob")
            observe("for bob", facts(for_bob))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_a_secret_key_tokens_are_disabled(
    without_tokens: SecuredBroker, observe: Observations, version: int
) -> None:
    with logged_in_as(without_tokens, "alice") as client:
        older = min(version, 2)
        observe("create", facts(create(client, version)))
        observe("for a group", facts(create(client, version, renewers=[("Group", "x")])))
        observe("describe", described(client, version))
        observe("describe none", described(client, version, []))
        observe("renew", renew(client, b"x", version=older))
        observe("expire", expire(client, b"x", version=older))
