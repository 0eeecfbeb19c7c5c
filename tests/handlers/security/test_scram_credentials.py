"""AlterUserScramCredentials and DescribeUserScramCredentials by their handlers. What Apache Kafka answers is compared
in compat_tests/comparisons/security."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.store import keys
from kwire.cluster.store.store import Check, CommitTooLarge, Write
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest, UserName
from kwire.codec.protocol import encode
from kwire.handlers.security import alter_user_scram_credentials, describe_user_scram_credentials
from kwire.security.scram_credentials import ScramMechanism, make_credential
from tests.cluster.helpers import node
from tests.handlers.admin_broker import AdminBroker, admin_broker

SHA_256, SHA_512 = ScramMechanism


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    yield made
    await made.close()


def put(name: str, password: str = "secret", mechanism: ScramMechanism = SHA_256) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=4096,
        salt=b"salt",
        salted_password=mechanism.salted_password(password, b"salt", 4096),
    )


def drop(name: str, mechanism: ScramMechanism = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(broker: AdminBroker, *changes: Any) -> list[tuple[str, str]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    response = await broker.call(alter_user_scram_credentials, request)
    encode(response, 0)
    return [(each.user, ErrorCode(each.error_code).name) for each in response.results]


async def described(broker: AdminBroker, *users: str) -> list[tuple[str, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
    response = await broker.call(describe_user_scram_credentials, request)
    encode(response, 0)
    return [
        (each.user, [(info.mechanism, info.iterations) for info in each.credential_infos]) for each in response.results
    ]


async def test_a_credential_verifies_the_password_that_the_client_salted(broker: AdminBroker) -> None:
    assert await alter(broker, put("alice"), put("bob", "else", SHA_512)) == [("bob", "NONE"), ("alice", "NONE")]
    assert broker.image.scram_credential(SHA_256, "alice") == make_credential(SHA_256, "secret", b"salt", 4096)
    assert broker.image.scram_credential(SHA_512, "bob") == make_credential(SHA_512, "else", b"salt", 4096)
    assert broker.image.scram_credential(SHA_512, "alice") is None


async def test_a_replaced_credential_counts_at_once_and_a_deleted_one_no_more(broker: AdminBroker) -> None:
    await alter(broker, put("alice"))
    await alter(broker, put("alice", "other"))
    assert broker.image.scram_credential(SHA_256, "alice") == make_credential(SHA_256, "other", b"salt", 4096)
    assert await alter(broker, drop("alice")) == [("alice", "NONE")]
    assert broker.image.scram_credential(SHA_256, "alice") is None
    assert await described(broker) == []


async def test_the_store_holds_no_password_and_a_name_may_be_anything(broker: AdminBroker) -> None:
    name = "a/b %é\n"
    await alter(broker, put(name, "top-secret-password"))
    _, entries = await broker.node.store.read(keys.SCRAM)
    ((key, entry),) = entries.items()
    assert keys.scram_user(key) == (SHA_256, name)
    assert b"top-secret" not in entry.value
    assert await described(broker, name) == [(name, [(1, 4096)])]


async def test_everybody_is_described_with_all_mechanisms(broker: AdminBroker) -> None:
    await alter(broker, put("alice"))
    await alter(broker, put("alice", mechanism=SHA_512), put("bob"))
    assert await described(broker) == [("bob", [(1, 4096)]), ("alice", [(1, 4096), (2, 4096)])]


async def test_a_name_that_does_not_fit_a_key_is_refused(broker: AdminBroker) -> None:
    assert await alter(broker, put("x" * 1016), put("é" * 339)) == [
        ("x" * 1016, "NONE"),
        ("é" * 339, "UNACCEPTABLE_CREDENTIAL"),
    ]


async def test_one_bad_user_does_not_stop_the_others(broker: AdminBroker) -> None:
    bad = put("bad")
    bad.iterations = 16385
    assert await alter(broker, bad, put("good"), drop("absent"), put("twice"), put("twice")) == [
        ("good", "NONE"),
        ("twice", "DUPLICATE_RESOURCE"),
        ("bad", "UNACCEPTABLE_CREDENTIAL"),
        ("absent", "RESOURCE_NOT_FOUND"),
    ]
    assert await described(broker) == [("good", [(1, 4096)])]


async def test_every_user_of_a_refused_request_gets_the_error_once(broker: AdminBroker) -> None:
    request = AlterUserScramCredentialsRequest(deletions=[drop("a")], upsertions=[put("a"), put("b")])
    response = alter_user_scram_credentials.API.error_response(request, 0, ErrorCode.NOT_CONTROLLER, "gone")
    assert [(each.user, each.error_code, each.error_message) for each in response.results] == [
        ("a", 41, "gone"),
        ("b", 41, "gone"),
    ]


async def test_a_request_that_the_store_does_not_accept_at_once_changes_no_user_and_says_so(
    broker: AdminBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(checks: Sequence[Check], writes: Sequence[Write]) -> int:
        if len(writes) > 2:
            raise CommitTooLarge("the change has 9 bytes, ZooKeeper accepts at most 2 at once")
        revision: int = await commit(checks, writes)
        return revision

    commit = broker.node.store.commit
    monkeypatch.setattr(broker.node.store, "commit", refuse)
    request = AlterUserScramCredentialsRequest(upsertions=[put(name) for name in "abc"])
    with pytest.raises(KafkaError, match=r"excessively large batch.*has 9 bytes") as refused:
        await broker.call(alter_user_scram_credentials, request)
    response = alter_user_scram_credentials.API.error_response(request, 0, refused.value.code, refused.value.message)
    assert [(each.user, each.error_code) for each in response.results] == [
        (user, ErrorCode.POLICY_VIOLATION) for user in "abc"
    ]
    assert await described(broker) == []
    assert await alter(broker, put("a"), put("b")) == [("a", "NONE"), ("b", "NONE")]


async def test_another_broker_learns_credentials_by_the_feed(broker: AdminBroker) -> None:
    other = await node(broker.node.store, 2)
    await alter(broker, put("alice"))
    await other.metadata.wait_for(broker.image.revision)
    assert other.image.scram_credentials == broker.image.scram_credentials
    late = await node(broker.node.store, 3)
    assert late.image.scram_credential(SHA_256, "alice") is not None


async def test_the_secret_behind_unknown_users_salts_is_made_once_for_all_brokers(broker: AdminBroker) -> None:
    assert broker.image.scram_secret == b""
    other = await node(broker.node.store, 2)
    secret = await other.controller.ensure_scram_secret()
    assert len(secret) == 32
    assert await broker.node.controller.ensure_scram_secret() == secret == broker.image.scram_secret
