"""Reassignments and the quorum, by their handlers, on one broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.cluster.store import keys
from kwire.cluster.store.store import Write
from kwire.codec.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.codec.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kwire.codec.protocol import encode
from kwire.handlers.cluster import describe_quorum
from kwire.handlers.topics import alter_partition_reassignments, create_topics, list_partition_reassignments
from tests.handlers.admin_broker import AdminBroker, admin_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await made.call(create_topics, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    yield made
    await made.close()


def wanted(
    *partitions: tuple[int, list[int] | None], name: str = "t", **fields: Any
) -> AlterPartitionReassignmentsRequest:
    listed = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in partitions]
    fields.setdefault("timeout_ms", 5000)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=listed)], **fields)


async def reassign(
    broker: AdminBroker, request: AlterPartitionReassignmentsRequest, version: int = 1
) -> list[tuple[int, str]]:
    response = await broker.call(alter_partition_reassignments, request, version)
    encode(response, version)
    (topic,) = response.responses
    return [(each.partition_index, ErrorCode(each.error_code).name) for each in topic.partitions]


@pytest.mark.parametrize("version", [0, 1])
async def test_replicas_that_are_where_they_should_be_stay(broker: AdminBroker, version: int) -> None:
    before = broker.image.topics["t"]
    assert await reassign(broker, wanted((1, [1]), (0, [1])), version) == [(1, "NONE"), (0, "NONE")]
    assert broker.image.topics["t"] is before


@pytest.mark.parametrize("replicas", [[], [2], [1, 1], [-1], [1, 2]])
async def test_replicas_that_cannot_be_are_refused_alone(broker: AdminBroker, replicas: list[int]) -> None:
    request = wanted((0, replicas), (1, [1]))
    assert await reassign(broker, request) == [(0, "INVALID_REPLICA_ASSIGNMENT"), (1, "NONE")]


async def test_a_changed_replication_factor_is_refused_with_both_numbers(broker: AdminBroker) -> None:
    state = keys.PartitionState((1, 2), (1,), 1, 3, 3)
    key = keys.shard_key(broker.image.topics["t"].id, 0)
    await broker.node.store.commit([], [Write(key, keys.pack_shard([state, state]))])
    request = wanted((0, [1]), allow_replication_factor_change=False)
    (topic,) = (await broker.call(alter_partition_reassignments, request, 1)).responses
    (partition,) = topic.partitions
    assert partition.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert partition.error_message == "The replication factor is changed from 2 to 1"


async def test_cancelling_and_unknown_partitions(broker: AdminBroker) -> None:
    request = wanted((0, None), (7, None), (-1, [1]))
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert await reassign(broker, request) == [(0, "NO_REASSIGNMENT_IN_PROGRESS"), (7, unknown), (-1, unknown)]
    assert await reassign(broker, wanted((0, [1]), name="absent")) == [(0, unknown)]


async def test_a_timed_out_reassignment_has_the_error_at_the_top_and_for_every_partition(broker: AdminBroker) -> None:
    response = await broker.call(alter_partition_reassignments, wanted((0, [1]), timeout_ms=0))
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert await reassign(broker, wanted((0, [1]), timeout_ms=0)) == [(0, "REQUEST_TIMED_OUT")]


async def test_no_reassignment_is_under_way(broker: AdminBroker) -> None:
    response = await broker.call(list_partition_reassignments, ListPartitionReassignmentsRequest())
    encode(response, 0)
    assert (response.error_code, response.topics) == (ErrorCode.NONE, [])


def quorum_of(*partitions: tuple[str, int]) -> DescribeQuorumRequest:
    topics = [TopicData(topic_name=name, partitions=[PartitionData(partition_index=i)]) for name, i in partitions]
    return DescribeQuorumRequest(topics=topics)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_controllership_and_the_stores_revision_are_described_as_the_quorum(
    broker: AdminBroker, version: int
) -> None:
    response = await broker.call(describe_quorum, quorum_of(("__cluster_metadata", 0)), version)
    encode(response, version)
    (partition,) = response.topics[0].partitions
    (voter,) = partition.current_voters
    assert (partition.leader_id, partition.leader_epoch, voter.replica_id) == (1, broker.image.controller_epoch, 1)
    assert partition.high_watermark == voter.log_end_offset == broker.image.revision > 0
    assert [node.node_id for node in response.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize(
    "requested", [[("absent", 0)], [("__cluster_metadata", 1)], [("__cluster_metadata", 0), ("absent", 0)]]
)
async def test_only_the_one_partition_of_metadata_has_a_quorum(
    broker: AdminBroker, requested: list[tuple[str, int]]
) -> None:
    response = await broker.call(describe_quorum, quorum_of(*requested))
    encode(response, 2)
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [(topic.topic_name, topic.partitions[0].partition_index) for topic in response.topics] == requested


async def test_without_a_controller_the_quorum_has_no_leader(broker: AdminBroker) -> None:
    broker.image.controller_id = -1
    response = await broker.call(describe_quorum, quorum_of(("__cluster_metadata", 0)))
    encode(response, 2)
    assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
