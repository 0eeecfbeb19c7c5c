"""Requests that one broker forwards to the controller: done as their client, whatever the Envelope is made to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.base.errors import ErrorCode
from kwire.cluster.controller.membership import Registration
from kwire.codec.message import Message
from kwire.codec.messages.alter_configs_request import AlterableConfig as OldConfig
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest
from kwire.codec.messages.alter_configs_request import AlterConfigsResource as OldResource
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_acls_request import CreateAclsRequest
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.create_topics_response import CreateTopicsResponse
from kwire.codec.messages.envelope_request import EnvelopeRequest
from kwire.codec.messages.envelope_response import EnvelopeResponse
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.protocol import ApiKey
from kwire.handlers.context import ConnectionSecurity, RequestContext
from kwire.handlers.envelopes import envelope_of, taken_out
from kwire.security.principals import Principal
from tests.server.access.guarded_cluster import CLIENTS, GuardedCluster
from tests.server.access.test_authorizers import acl
from tests.server.cluster import Cluster
from tests.server.conftest import Brokers, closed

CREATE = 5
CLUSTER_ACTION = 9
CLUSTER = 4
BROKER = 4
ALICE = Principal("User", "alice")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[GuardedCluster]:
    """Broker 1 is the controller, broker 2 is not."""
    async with AsyncExitStack() as stack:
        cluster = GuardedCluster(tmp_path, stack)
        await cluster.start(1)
        await cluster.start(2)
        yield cluster


def new_topic(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


async def created(client: RawClient, name: str) -> int:
    answer = await client.call(new_topic(name), 7)
    code: int = answer.topics[0].error_code
    return code


async def allow(guarded: GuardedCluster, *entries: Any) -> None:
    root = await guarded.log_in(2, "root")
    answer = await root.call(CreateAclsRequest(creations=list(entries)), 3)
    assert [each.error_code for each in answer.results] == [0] * len(entries)


async def test_the_controller_decides_by_the_clients_principal(guarded: GuardedCluster) -> None:
    alice, bob, root = [await guarded.log_in(2, user) for user in ("alice", "bob", "root")]
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [await created(each, "orders") for each in (alice, bob, root)] == [refused, refused, 0]
    await allow(guarded, acl("bills", CREATE, "User:alice"))
    assert [await created(each, "bills") for each in (bob, alice)] == [refused, 0]


@pytest.mark.parametrize(("host", "code"), [("127.0.0.1", 0), ("127.0.0.2", ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
async def test_the_controller_decides_by_the_clients_address(guarded: GuardedCluster, host: str, code: int) -> None:
    entry = acl("bills", CREATE, "User:alice")
    entry.host = host
    await allow(guarded, entry)
    assert await created(await guarded.log_in(2, "alice"), "bills") == code


async def test_an_automatic_topic_is_created_for_the_client_that_may(guarded: GuardedCluster) -> None:
    await allow(guarded, acl("bills", CREATE, "User:alice"), acl("bills", 8, "User:*"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="bills")], allow_auto_topic_creation=True)
    for user, code in (("bob", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("alice", 0)):
        client = await guarded.log_in(2, user)
        assert (await client.call(request, 12)).topics[0].error_code == code


# Forged Envelopes


def envelope(
    request: Message | None = None,
    version: int = 7,
    *,
    principal: Principal = ALICE,
    client_id: str = "forged",
    token: bool = False,
) -> EnvelopeRequest:
    context = RequestContext(
        None,  # type: ignore[arg-type]
        correlation_id=7,
        client_id=client_id,
        principal=principal,
        security=ConnectionSecurity("SASL_PLAINTEXT", token),
    )
    return envelope_of(request or new_topic("forged"), version, context)


async def test_a_broker_may_send_an_envelope(guarded: GuardedCluster) -> None:
    broker = await guarded.connect(1)
    for principal, code in ((ALICE, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (Principal("User", "root"), 0)):
        answer = await broker.call(envelope(principal=principal), 0)
        assert answer.error_code == 0
        assert taken_out(answer, ApiKey.CREATE_TOPICS, 7).topics[0].error_code == code


async def test_an_envelope_on_a_listener_of_clients_closes_the_connection(guarded: GuardedCluster) -> None:
    for user in ("alice", "root"):
        client = await guarded.log_in(1, user)
        client.send_only(envelope(principal=Principal("User", "root")), 0)
        assert await closed(client)
    assert "forged" not in guarded.brokers[1].metadata.image.topics


async def test_an_envelope_from_who_is_no_broker_is_refused(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        guarded = GuardedCluster(tmp_path, stack)
        for node_id in (1, 2):
            await guarded.start(node_id, super_users="User:root")
        stranger = await guarded.connect(1)
        answer = await stranger.call(envelope(principal=Principal("User", "root")), 0)
        assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        assert "forged" not in guarded.brokers[1].metadata.image.topics


async def test_a_broker_without_cluster_action_forwards_nothing(tmp_path: Path) -> None:
    """Its principal needs nothing but CLUSTER_ACTION, which ACLs can give it."""
    async with AsyncExitStack() as stack:
        guarded = GuardedCluster(tmp_path, stack)
        await guarded.start(1, super_users="User:root")
        await guarded.start(2, super_users="User:root")
        answer = await (await guarded.log_in(2, "root")).call(new_topic("orders"), 7)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "CLUSTER_ACTION" in (answer.topics[0].error_message or "")
        brokers = acl("kafka-cluster", CLUSTER_ACTION)
        brokers.resource_type = CLUSTER
        root = await guarded.log_in(1, "root")
        assert (await root.call(CreateAclsRequest(creations=[brokers]), 3)).results[0].error_code == 0
        assert await created(await guarded.log_in(2, "root"), "orders") == 0
        assert await created(await guarded.connect(2), "bills") == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_client_id_of_a_broker_gives_no_rights(guarded: GuardedCluster) -> None:
    client = await guarded.log_in(1, "alice")
    client._client_id = "broker-2"
    assert await created(client, "forged") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for user in ("alice", "root"):
        client = await guarded.log_in(1, user)
        client._client_id = "broker-2"
        answer = await client.call(broker_config("2"), 1)
        assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST


async def test_envelopes_on_another_broker_name_the_error(guarded: GuardedCluster) -> None:
    answer = await (await guarded.connect(2)).call(envelope(principal=Principal("User", "root")), 0)
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def changed(**fields: Any) -> EnvelopeRequest:
    found = envelope(principal=Principal("User", "root"))
    for name, value in fields.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (changed(request_principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (changed(request_principal=b"\0\7"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (changed(client_host_address=b""), ErrorCode.INVALID_REQUEST),
        (changed(client_host_address=b"1.2.3.4"), ErrorCode.INVALID_REQUEST),
        (changed(request_data=b""), ErrorCode.UNSUPPORTED_VERSION),
        (changed(request_data=b"\0\x13\0\7"), ErrorCode.UNSUPPORTED_VERSION),
        (changed(request_data=b"\x7f\xff" + bytes(12)), ErrorCode.UNSUPPORTED_VERSION),
        (changed(request_data=b"\0\x13\0\x63" + bytes(12)), ErrorCode.UNSUPPORTED_VERSION),
        (changed(request_data=changed().request_data[:-4]), ErrorCode.UNSUPPORTED_VERSION),
        (envelope(envelope(), 0), ErrorCode.INVALID_REQUEST),
        (envelope(ListGroupsRequest(), 3), ErrorCode.INVALID_REQUEST),
        (envelope(ApiVersionsRequest(), 3), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_broken_envelope_is_refused(guarded: GuardedCluster, request_: EnvelopeRequest, code: int) -> None:
    answer: EnvelopeResponse = await (await guarded.connect(1)).call(request_, 0)
    assert (answer.error_code, answer.response_data) == (code, None)
    assert not guarded.brokers[1].metadata.image.topics


async def test_a_broker_that_is_alone_takes_no_envelopes(brokers: Brokers) -> None:
    client = await brokers.connect(await brokers.start())
    client.send_only(envelope(), 0)
    assert await closed(client)


async def test_no_listener_advertises_envelope(guarded: GuardedCluster) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for client in (await guarded.connect(1), await guarded.connect(1, CLIENTS)):
        answer = await client.call(request, 3)
        assert ApiKey.ENVELOPE not in {each.api_key for each in answer.api_keys}


# What only the broker that got the request can check


def broker_config(*names: str) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name="log.cleaner.backoff.ms", config_operation=0, value="5000")]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs) for name in names]
    )


def old_broker_config(*names: str) -> AlterConfigsRequest:
    configs = [OldConfig(name="log.cleaner.backoff.ms", value="5000")]
    return AlterConfigsRequest(
        resources=[OldResource(resource_type=BROKER, resource_name=name, configs=configs) for name in names]
    )


@pytest.mark.parametrize(("make", "version"), [(broker_config, 1), (old_broker_config, 2)])
@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_broker_changes_its_own_properties_only(
    guarded: GuardedCluster, make: Any, version: int, node_id: int
) -> None:
    root, alice = await guarded.log_in(node_id, "root"), await guarded.log_in(node_id, "alice")
    answer = await root.call(make("1", "2"), version)
    wrong = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in answer.responses] == ([0, wrong] if node_id == 1 else [wrong, 0])
    answer = await alice.call(make("1", "2"), version)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.error_code for each in answer.responses] == ([denied, wrong] if node_id == 1 else [wrong, denied])
    answer = await root.call(make("3"), version)
    assert [each.error_code for each in answer.responses] == [wrong]


# Brokers that are too old


@pytest.fixture
def old_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers register as kwire 0.1.0 did."""
    monkeypatch.setattr(Registration, "__new__", _old_registration(Registration.__new__))


def _old_registration(make: Any) -> Any:
    def made(cls: Any, endpoints: Any, rack: Any, features: Any, **_new: Any) -> Registration:
        found: Registration = make(cls, endpoints, rack, features, False)
        return found

    return made


async def test_a_request_goes_to_an_old_controller_as_it_is(cluster: Cluster, old_registrations: None) -> None:
    await cluster.start(1)
    client = await cluster.start(2)
    assert await created(client, "orders") == 0
    assert (await client.call(broker_config("2"), 1)).responses[0].error_code == 0
    assert (await client.call(broker_config("1"), 1)).responses[0].error_code == ErrorCode.INVALID_REQUEST


async def test_an_old_controller_gets_no_request_if_there_is_an_authorizer(
    tmp_path: Path, old_registrations: None
) -> None:
    async with AsyncExitStack() as stack:
        guarded = GuardedCluster(tmp_path, stack)
        await guarded.start(1)
        await guarded.start(2)
        answer: CreateTopicsResponse = await (await guarded.log_in(2, "root")).call(new_topic("orders"), 7)
        assert answer.topics[0].error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "Broker 1, the controller, is too old" in (answer.topics[0].error_message or "")
