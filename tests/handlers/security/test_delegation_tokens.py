"""The four APIs of delegation tokens by their handlers, and logins with a token. What Apache Kafka answers is compared
in compat_tests/comparisons/security."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.token_logins import TokenLogins
from kwire.cluster.store import keys
from kwire.codec.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kwire.codec.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.codec.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kwire.codec.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.codec.protocol import encode
from kwire.handlers.context import ConnectionSecurity
from kwire.handlers.security import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from kwire.security.acls.operations import AclOperation, Operation
from kwire.security.delegation_tokens import token_password
from kwire.security.principals import ANONYMOUS, Principal
from kwire.security.sasl.scram import ClientScram, ScramLookup, ServerScram
from kwire.security.scram_credentials import ScramMechanism
from tests.cluster.helpers import node
from tests.handlers.admin_broker import AdminBroker, admin_broker

MODULES = {
    CreateDelegationTokenRequest: create_delegation_token,
    DescribeDelegationTokenRequest: describe_delegation_token,
    ExpireDelegationTokenRequest: expire_delegation_token,
    RenewDelegationTokenRequest: renew_delegation_token,
}
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
SASL = ConnectionSecurity("SASL_PLAINTEXT")
KEY = "the-secret-key"
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path, delegation_token_secret_key=KEY)
    yield made
    await made.close()


@pytest.fixture
async def without_tokens(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    yield made
    await made.close()


async def call(
    broker: AdminBroker,
    request: Any,
    by: Principal = ALICE,
    security: ConnectionSecurity = SASL,
    version: int | None = None,
) -> Any:
    """What a client gets, its errors included."""
    module = MODULES[type(request)]
    chosen = module.API.served[1] if version is None else version
    try:
        response = await broker.call(module, request, chosen, principal=by, security=security)
    except KafkaError as error:
        response = module.API.error_response(request, chosen, error.code, error.message)
    encode(response, chosen)
    return response


def creation(owner: Principal | None = None, renewers: Sequence[Principal] = (), **fields: Any) -> Any:
    named = {"owner_principal_type": owner.type, "owner_principal_name": owner.name} if owner else {}
    renewing = [CreatableRenewers(principal_type=each.type, principal_name=each.name) for each in renewers]
    return CreateDelegationTokenRequest(renewers=renewing, **{"max_lifetime_ms": -1, **named, **fields})


def renewal(hmac: bytes, period_ms: int = -1) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)


def expiry(hmac: bytes, period_ms: int = -1) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)


def description(*owners: Principal) -> DescribeDelegationTokenRequest:
    named = [DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name) for each in owners]
    return DescribeDelegationTokenRequest(owners=named or None)


async def test_a_token_is_created_described_renewed_and_expired(broker: AdminBroker) -> None:
    made = await call(broker, creation(renewers=[CAROL]))
    assert made.error_code == 0
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    (token,) = (await call(broker, description())).tokens
    assert (token.token_id, token.hmac, token.expiry_timestamp) == (made.token_id, made.hmac, made.expiry_timestamp_ms)
    assert [each.principal_name for each in token.renewers] == ["carol"]
    renewed = await call(broker, renewal(made.hmac, 5000), by=CAROL)
    assert renewed.error_code == 0
    assert broker.image.delegation_tokens[made.token_id].expiry_ms == renewed.expiry_timestamp_ms
    assert renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
    assert (await call(broker, expiry(made.hmac), by=BOB)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert (await call(broker, expiry(made.hmac))).error_code == 0
    assert broker.image.delegation_tokens == {}
    assert (await call(broker, expiry(made.hmac))).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_older_versions_do_not_name_the_requester(broker: AdminBroker, version: int) -> None:
    made = await call(broker, creation(), version=version)
    refused = await call(broker, creation(), security=ConnectionSecurity(), version=version)
    (token,) = (await call(broker, description(), version=version)).tokens
    requester = "alice" if version >= 3 else ""
    assert {each.token_requester_principal_name for each in (made, refused, token)} == {requester}


async def test_the_store_does_not_hold_what_logs_in(broker: AdminBroker) -> None:
    made = await call(broker, creation())
    _, entries = await broker.node.store.read("")
    stored = b"".join(entry.value for entry in entries.values())
    assert keys.delegation_token_key(made.token_id) in entries
    assert made.hmac not in stored
    assert token_password(made.hmac).encode() not in stored
    assert made.hmac.hex().encode() not in stored


@pytest.mark.parametrize(
    ("security", "principal", "allowed"),
    [
        (ConnectionSecurity(), ALICE, False),
        (ConnectionSecurity("SSL"), ANONYMOUS, False),
        (ConnectionSecurity("SSL"), Principal("User", "CN=alice"), True),
        (ConnectionSecurity("SASL_SSL"), ALICE, True),
        (ConnectionSecurity("SASL_PLAINTEXT"), ANONYMOUS, True),
        (ConnectionSecurity("SASL_SSL", token_authenticated=True), ALICE, False),
    ],
)
async def test_only_who_has_logged_in_without_a_token_may_ask(
    broker: AdminBroker, security: ConnectionSecurity, principal: Principal, allowed: bool
) -> None:
    made = await call(broker, creation(), by=principal, security=security)
    assert made.error_code == (0 if allowed else NOT_ALLOWED)
    assert str(principal) == f"{made.principal_type}:{made.principal_name}"
    codes = []
    for request in (renewal(b"x"), expiry(b"x"), description()):
        codes.append((await call(broker, request, by=principal, security=security)).error_code)
    unknown = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert codes == ([unknown, unknown, 0] if allowed else [NOT_ALLOWED] * 3)


async def test_without_a_secret_key_tokens_are_disabled(without_tokens: AdminBroker) -> None:
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    for request in (creation(), renewal(b"x"), expiry(b"x"), description()):
        assert (await call(without_tokens, request)).error_code == disabled
    group = [Principal("Group", "x")]
    assert (await call(without_tokens, creation(renewers=group))).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


async def test_a_token_for_another_needs_permission(broker: AdminBroker) -> None:
    asked: list[Operation] = []

    class Asking:
        allows_all = False

        def authorize(self, context: Any, operation: Operation, purpose: object = None) -> bool:
            asked.append(operation)
            return False

    allowed = await call(broker, creation(BOB))
    assert (allowed.error_code, allowed.principal_name, allowed.token_requester_principal_name) == (0, "bob", "alice")
    broker.replace_services(authorizer=Asking())
    refused = await call(broker, creation(BOB))
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (asked[0].operation, asked[0].resource_name) == (AclOperation.CREATE_TOKENS, "User:bob")
    assert (await call(broker, creation(ALICE))).error_code == 0


async def test_an_owner_without_a_type_is_refused(broker: AdminBroker) -> None:
    request = creation(owner_principal_type=None, owner_principal_name="bob")
    assert (await call(broker, request)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


async def test_others_tokens_are_seen_with_permission_only(broker: AdminBroker) -> None:
    made = await call(broker, creation(BOB, renewers=[CAROL]))
    dave = Principal("User", "dave")

    class Denying:
        allows_all = False

        def authorize(self, context: Any, operation: Operation, purpose: object = None) -> bool:
            return False

    assert len((await call(broker, description(), by=dave)).tokens) == 1
    broker.replace_services(authorizer=Denying())
    for principal in (ALICE, BOB, CAROL):
        assert [each.token_id for each in (await call(broker, description(), by=principal)).tokens] == [made.token_id]
    assert (await call(broker, description(), by=dave)).tokens == []
    assert (await call(broker, description(dave), by=ALICE)).tokens == []
    assert len((await call(broker, description(dave, BOB), by=ALICE)).tokens) == 1


async def test_a_token_that_another_broker_has_just_created_is_found(broker: AdminBroker) -> None:
    other = await node(broker.node.store, 2, delegation_token_secret_key=KEY)
    token = await other.controller.delegation_tokens.create(ALICE, ALICE, [], -1)
    hmac = other.controller.delegation_tokens.hmac(token.id)
    assert (await call(broker, renewal(hmac))).error_code == 0


async def test_only_expired_tokens_are_removed_and_only_by_the_controller(broker: AdminBroker) -> None:
    tokens = broker.node.controller.delegation_tokens
    kept = await tokens.create(ALICE, ALICE, [], -1)
    gone = await tokens.create(ALICE, ALICE, [], -1)
    await tokens.expire(tokens.hmac(gone.id), ALICE, 0)
    now_ms = broker.node.doors.clock.time_ms
    while not broker.image.delegation_tokens[gone.id].is_expired(now_ms()):
        pass  # a millisecond
    other = await node(broker.node.store, 2, delegation_token_secret_key=KEY)
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await other.controller.delegation_tokens.remove_expired()
    assert await tokens.remove_expired() == 1
    assert list(broker.image.delegation_tokens) == [kept.id]
    assert await tokens.remove_expired() == 0


def login(logins: TokenLogins, mechanism: ScramMechanism, token_id: str, password: str) -> ServerScram:
    """A login with a token, up to its end."""
    lookup = ScramLookup(lambda _: None, b"s" * 32, logins)
    server = ServerScram(mechanism, lookup, bytes)
    client = ClientScram(mechanism, token_id, password, bytes, by_token=True)
    client.respond(server.respond(client.respond(server.respond(client.first()))))
    return server


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
async def test_a_token_logs_in_until_it_expires(broker: AdminBroker, mechanism: ScramMechanism) -> None:
    now = [broker.node.doors.clock.time_ms()]
    logins = TokenLogins(KEY, lambda: broker.image, lambda: now[0])
    made = await call(broker, creation(BOB))
    server = login(logins, mechanism, made.token_id, token_password(made.hmac))
    assert (server.complete, server.principal, server.by_token) == (True, BOB, True)
    assert server.expires_ms == made.expiry_timestamp_ms
    first = logins.credential(mechanism, made.token_id)
    again = TokenLogins(KEY, lambda: broker.image, lambda: now[0]).credential(mechanism, made.token_id)
    assert first == again
    now[0] = made.expiry_timestamp_ms + 1
    assert logins.credential(mechanism, made.token_id) is None
    assert logins.owner(made.token_id) is None
    assert logins.expires_ms(made.token_id) is None


async def test_an_unknown_token_has_no_credential(broker: AdminBroker) -> None:
    logins = TokenLogins(KEY, lambda: broker.image, lambda: 0)
    assert logins.credential(ScramMechanism.SHA_256, "nothing") is None
