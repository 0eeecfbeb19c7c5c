"""AlterPartitionReassignments, ListPartitionReassignments and DescribeQuorum on one broker, valid and invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import Wire, by_key, facts
from harness.observations import Observations
from kwire.codec.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codec.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.codec.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

Wanted = list[tuple[int, list[int] | None]]


def reassign(wire: Wire, *topics: tuple[str, Wanted], version: int = 1, **fields: Any) -> Any:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=ids) for index, ids in wanted],
            )
            for name, wanted in topics
        ],
        **fields,
    )
    response = wire.call(request, version)
    results = [(one.name, [(p.partition_index, p.error_code) for p in one.partitions]) for one in response.responses]
    return [response.error_code, response.allow_replication_factor_change, results]


@pytest.mark.parametrize("version", range(2))
def test_replicas_that_are_where_they_should_be(
    wire: Wire, made: Callable[..., str], observe: Observations, version: int
) -> None:
    name = made(2)
    observe("one", reassign(wire, (name, [(0, [1])]), version=version))
    observe("all", reassign(wire, (name, [(1, [1]), (0, [1])]), version=version))
    observe("none", reassign(wire, version=version))
    observe("no partitions", reassign(wire, (name, []), version=version))
    observe("afterwards", wire.describe(name))


@pytest.mark.parametrize("replicas", [[], [2], [1, 2], [1, 1], [-1], [2, 2], [1, -2]])
def test_replicas_that_cannot_be(
    wire: Wire, made: Callable[..., str], observe: Observations, replicas: list[int]
) -> None:
    name = made(2)
    observe("response", reassign(wire, (name, [(0, replicas), (1, [1])])))
    observe("same factor", reassign(wire, (name, [(0, replicas)]), allow_replication_factor_change=False))


def test_cancelling_what_is_not_under_way(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    observe("response", reassign(wire, (made(), [(0, None)])))


def test_reassigning_what_is_not_there(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made()
    for replicas in ([1], [2], None):
        observe(f"{replicas}", reassign(wire, ("not-there", [(0, replicas)]), (name, [(1, replicas), (-1, replicas)])))


def test_a_topic_twice_in_a_request(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made()
    observe("partition", reassign(wire, (name, [(0, [1]), (0, None)])))
    observe("topic", reassign(wire, (name, [(0, [1])]), (name, [(0, None)])))


def test_a_client_that_does_not_wait_for_reassignments(
    wire: Wire, made: Callable[..., str], observe: Observations
) -> None:
    observe("response", [reassign(wire, (made(), [(0, [1])]), timeout_ms=timeout_ms) for timeout_ms in (0, -1)])


def test_no_reassignments_are_listed(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made(2)
    requested: list[list[tuple[str, list[int]]] | None] = [
        None,
        [],
        [(name, [0, 7])],
        [("not-there", [0])],
        [(name, [])],
    ]
    for each in requested:
        topics = None
        if each is not None:
            topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=ids) for name, ids in each]
        observe(f"{each and len(each)} {each}".replace(name, "N"), facts(wire.call(_listing(topics), 0)))
    observe("no time", facts(wire.call(_listing(None, timeout_ms=0), 0)))


def _listing(
    topics: list[ListPartitionReassignmentsTopics] | None, timeout_ms: int = 10_000
) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)


QUORUM_NUMBERS = {
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "replica_directory_id",
    "nodes",
}


def quorum(wire: Wire, version: int, *topics: tuple[str, list[int]]) -> Any:
    requested = [
        TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in ids])
        for name, ids in topics
    ]
    return wire.call(DescribeQuorumRequest(topics=requested), version)


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_this_broker(wire: Wire, observe: Observations, version: int) -> None:
    response = quorum(wire, version, ("__cluster_metadata", [0]))
    observe("response", facts(response, leave_out=QUORUM_NUMBERS))
    (partition,) = response.topics[0].partitions
    assert partition.leader_epoch >= 0
    assert partition.high_watermark >= 0
    (voter,) = partition.current_voters
    assert voter.log_end_offset >= partition.high_watermark
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0
    observe("nodes", [(node.node_id, len(node.listeners)) for node in by_key(response.nodes, "node_id")])


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_of_what_has_none(wire: Wire, observe: Observations, version: int) -> None:
    requested: list[list[tuple[str, list[int]]]] = [
        [],
        [("not-there", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [])],
        [("__cluster_metadata", [0, 0])],
        [("__cluster_metadata", [0]), ("not-there", [0])],
    ]
    for each in requested:
        response = quorum(wire, version, *each)
        observe(f"{each}", response if response == "closed" else facts(response, leave_out=QUORUM_NUMBERS))
