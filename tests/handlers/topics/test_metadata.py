"""Metadata, DescribeCluster and DescribeTopicPartitions from the image."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import Endpoint
from kwire.cluster.store import keys
from kwire.cluster.store.store import Write
from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest
from kwire.codec.messages.describe_topic_partitions_request import Cursor as RequestCursor
from kwire.codec.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.protocol import encode
from kwire.handlers.cluster import describe_cluster
from kwire.handlers.topics import describe_topic_partitions, metadata
from kwire.security.acls.operations import AclOperation
from tests.handlers.admin_broker import AdminBroker, Denying, admin_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    yield made
    await made.close()


def metadata_request(*names: str, auto: bool = False, **fields: Any) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=auto, **fields)


async def create(broker: AdminBroker, *topics: str | NewTopic) -> Any:
    new_topics = [topic if isinstance(topic, NewTopic) else NewTopic(topic) for topic in topics]
    return await broker.node.controller.create_topics(new_topics)


def codes(response: Any) -> dict[str | None, str]:
    return {topic.name: ErrorCode(topic.error_code).name for topic in response.topics}


async def test_null_requests_all_topics_and_an_empty_list_none(broker: AdminBroker) -> None:
    await create(broker, "a", "b")
    assert codes(await broker.call(metadata, MetadataRequest(topics=None))) == {"a": "NONE", "b": "NONE"}
    assert codes(await broker.call(metadata, metadata_request())) == {}
    assert codes(await broker.call(metadata, MetadataRequest(topics=[]), 0)) == {"a": "NONE", "b": "NONE"}


async def test_this_broker_has_the_address_that_the_client_uses(broker: AdminBroker) -> None:
    response = await broker.call(metadata, metadata_request(), endpoint=("example.org", 1234))
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [(1, "example.org", 1234)]
    assert (response.controller_id, response.cluster_id) == (1, broker.image.cluster_id)


async def test_if_no_broker_is_registered_the_response_has_this_one(
    broker: AdminBroker,
) -> None:
    await broker.node.membership.leave()
    assert not broker.image.brokers
    response = await broker.call(metadata, metadata_request(), endpoint=("example.org", 1234))
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [(1, "example.org", 1234)]
    assert response.controller_id == -1


async def test_other_brokers_have_the_clients_listener_or_are_left_out(broker: AdminBroker) -> None:
    store = broker.node.store
    endpoints = [list(Endpoint("TLS", "two", 9093, "SSL")), list(Endpoint("PLAINTEXT", "two", 9092, "PLAINTEXT"))]
    await store.commit([], [Write(keys.broker_key(2), keys.pack(endpoints=endpoints, rack="r"))])
    for listener, expected in (("PLAINTEXT", [1, 2]), ("TLS", [1, 2]), ("OTHER", [1])):
        response = await broker.call(metadata, metadata_request(), listener=listener)
        assert [each.node_id for each in response.brokers] == expected
    response = await broker.call(describe_cluster, DescribeClusterRequest(), listener="TLS")
    assert [(each.host, each.port, each.rack) for each in response.brokers][1] == ("two", 9093, "r")


async def test_a_missing_topic_is_created_and_in_the_same_response(broker: AdminBroker) -> None:
    response = await broker.call(metadata, metadata_request("new", "a/b", auto=True))
    assert codes(response) == {"new": "NONE", "a/b": "INVALID_TOPIC_EXCEPTION"}
    assert response.topics[0].topic_id == broker.image.topics["new"].id
    assert broker.replicas.partition("new", 0).leading


async def test_nothing_is_created_where_client_or_broker_forbid_it(tmp_path: Path, broker: AdminBroker) -> None:
    assert codes(await broker.call(metadata, metadata_request("new"))) == {"new": "UNKNOWN_TOPIC_OR_PARTITION"}
    forbidding = await admin_broker(tmp_path / "other", auto_create_topics_enable="false")
    assert codes(await forbidding.call(metadata, metadata_request("new", auto=True))) == {
        "new": "UNKNOWN_TOPIC_OR_PARTITION"
    }
    assert broker.image.topics == forbidding.image.topics == {}
    await forbidding.close()


async def test_a_topic_that_cannot_be_created_is_not_there(tmp_path: Path) -> None:
    broker = await admin_broker(tmp_path, default_replication_factor="3")
    assert codes(await broker.call(metadata, metadata_request("new", auto=True))) == {
        "new": "UNKNOWN_TOPIC_OR_PARTITION"
    }
    await broker.close()


async def test_topics_by_id(broker: AdminBroker) -> None:
    topic_id = (await create(broker, "a"))["a"].id
    topics = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, b"x" * 16, topic_id)]
    response = await broker.call(metadata, MetadataRequest(topics=topics))
    assert codes(response) == {"a": "NONE", None: "UNKNOWN_TOPIC_ID"}
    assert len(response.topics) == 2


@pytest.mark.parametrize(
    ("version", "topic"),
    [(11, MetadataRequestTopic(name="a", topic_id=b"x" * 16)), (12, MetadataRequestTopic(name=None))],
)
async def test_ids_in_old_versions_and_topics_without_name_and_id_are_refused(
    broker: AdminBroker, version: int, topic: MetadataRequestTopic
) -> None:
    response = await broker.call(metadata, MetadataRequest(topics=[topic]), version)
    assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert response.brokers == []
    encode(response, version)


async def test_a_partition_without_a_live_leader_has_an_error(broker: AdminBroker) -> None:
    topic_id = (await create(broker, "a"))["a"].id
    state = keys.PartitionState((1, 2), (2,), 2, 3, 3)
    await broker.node.store.commit([], [Write(keys.shard_key(topic_id, 0), keys.pack_shard([state]))])
    (partition,) = (await broker.call(metadata, metadata_request("a"))).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.leader_epoch, partition.offline_replicas) == (-1, 3, [2])


@pytest.mark.parametrize(
    ("version", "error", "replicas", "isr"),
    [(0, ErrorCode.REPLICA_NOT_AVAILABLE, [1], [1]), (1, ErrorCode.NONE, [1, 2], [1, 2])],
)
async def test_version_0_has_only_replicas_on_running_brokers(
    broker: AdminBroker, version: int, error: ErrorCode, replicas: list[int], isr: list[int]
) -> None:
    topic_id = (await create(broker, "a"))["a"].id
    state = keys.PartitionState((1, 2), (1, 2), 1, 3, 3)
    await broker.node.store.commit([], [Write(keys.shard_key(topic_id, 0), keys.pack_shard([state]))])
    response = await broker.call(metadata, metadata_request("a", "missing"), version)
    assert codes(response) == {"a": "NONE", "missing": "UNKNOWN_TOPIC_OR_PARTITION"}
    (partition,) = response.topics[0].partitions
    assert partition.error_code == error
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, replicas, isr)
    encode(response, version)


async def test_the_response_follows_the_image(broker: AdminBroker) -> None:
    await create(broker, "a")
    before = await broker.call(metadata, metadata_request("a"))
    assert (await broker.call(metadata, metadata_request("a"))).topics[0] is before.topics[0]  # made once per image
    from kwire.cluster.controller.controller import NewPartitions

    await broker.node.controller.create_partitions([NewPartitions("a", 2)])
    assert len((await broker.call(metadata, metadata_request("a"))).topics[0].partitions) == 2
    assert len(before.topics[0].partitions) == 1


async def test_authorised_operations_only_on_request(broker: AdminBroker) -> None:
    await create(broker, "a")
    plain = await broker.call(metadata, metadata_request("a"))
    described = await broker.call(metadata, metadata_request("a", include_topic_authorized_operations=True))
    assert plain.topics[0].topic_authorized_operations == -(2**31)
    assert described.topics[0].topic_authorized_operations == 3576
    fields = {"include_cluster_authorized_operations": True}
    assert (await broker.call(metadata, metadata_request(**fields), 10)).cluster_authorized_operations == 8096


async def test_topics_that_may_not_be_described_are_hidden_or_refused(broker: AdminBroker) -> None:
    await create(broker, "secret", "open")
    broker.replace_services(authorizer=Denying(AclOperation.DESCRIBE))
    assert codes(await broker.call(metadata, MetadataRequest(topics=None))) == {"open": "NONE"}
    assert codes(await broker.call(metadata, metadata_request("secret", "secret-new", auto=True))) == {
        "secret": "TOPIC_AUTHORIZATION_FAILED",
        "secret-new": "TOPIC_AUTHORIZATION_FAILED",
    }
    topic_id = broker.image.topics["secret"].id
    response = await broker.call(metadata, MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)]))
    assert codes(response) == {None: "TOPIC_AUTHORIZATION_FAILED"}
    pages = await broker.call(describe_topic_partitions, DescribeTopicPartitionsRequest())
    assert codes(pages) == {"open": "NONE"}


@pytest.mark.parametrize("version", range(14))
async def test_every_version_can_be_encoded(broker: AdminBroker, version: int) -> None:
    await create(broker, NewTopic("a", 3))
    topics = [MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")]
    for request in (MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataRequest(topics=[])):
        assert encode(await broker.call(metadata, request, version), version)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE), (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (1, ErrorCode.NONE)],
)
async def test_only_brokers_are_described(broker: AdminBroker, kind: int, code: ErrorCode) -> None:
    response = await broker.call(describe_cluster, DescribeClusterRequest(endpoint_type=kind))
    assert response.error_code == code
    assert (response.error_message is None) == (code == ErrorCode.NONE)
    if code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:  # the tools for controllers show this
        assert "to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER" in response.error_message
    assert len(response.brokers) == (1 if code == ErrorCode.NONE else 0)


async def pages(broker: AdminBroker, names: list[str], limit: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    cursor: RequestCursor | None = None
    for _ in range(50):
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], cursor=cursor, response_partition_limit=limit
        )
        response = await broker.call(describe_topic_partitions, request)
        page = [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]
        assert len(page) <= max(limit, 1)
        found += page
        if response.next_cursor is None:
            return found
        cursor = RequestCursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100, 0])
async def test_all_pages_together_have_every_partition_once(broker: AdminBroker, limit: int) -> None:
    await create(broker, NewTopic("c", 2), NewTopic("a", 3), NewTopic("b", 4))
    whole = [(name, index) for name, count in (("a", 3), ("b", 4), ("c", 2)) for index in range(count)]
    assert await pages(broker, [], limit) == whole
    assert await pages(broker, ["c", "nowhere", "a", "b"], limit) == whole


async def test_a_page_is_limited_by_the_broker_too(tmp_path: Path) -> None:
    broker = await admin_broker(tmp_path, max_request_partition_size_limit="2")
    await create(broker, NewTopic("a", 3))
    response = await broker.call(describe_topic_partitions, DescribeTopicPartitionsRequest(response_partition_limit=9))
    assert len(response.topics[0].partitions) == 2
    await broker.close()
