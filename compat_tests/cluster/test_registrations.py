"""Stopped brokers that stay registered, and unregistered brokers: the same on three brokers of each kind."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from compat_tests.cluster.three_brokers import NODES, SETTLE_S, ThreeBrokers
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import wait_until
from kwire.codec.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codec.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.unregister_broker_request import UnregisterBrokerRequest

EVERYBODY = [[node, f"rack-{node}", False] for node in NODES]

pytestmark = pytest.mark.java


def described(three: ThreeBrokers, node: int = 1, *, fenced: bool = True) -> list[Any]:
    """(id, rack, fenced) of the brokers in DescribeCluster."""
    response = three.call(node, DescribeClusterRequest(include_fenced_brokers=fenced), 2)
    return sorted([each.broker_id, each.rack, each.is_fenced] for each in response.brokers)


def unregister(three: ThreeBrokers, broker_id: int) -> list[Any]:
    response = three.call(1, UnregisterBrokerRequest(broker_id=broker_id), 0)
    return [response.error_code, response.error_message]


def create(
    three: ThreeBrokers, topic: str, factor: int = -1, *replicas: Sequence[int], validate_only: bool = False
) -> int:
    """The error code of CreateTopics: for one partition with a replication factor, or with explicit replicas."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1 if replicas else 1,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in enumerate(replicas)
        ],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=20_000, validate_only=validate_only)
    return int(three.call(1, request, 7).topics[0].error_code)


def grow(three: ThreeBrokers, topic: str, count: int, *replicas: Sequence[int]) -> int:
    assignments = [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in replicas]
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=assignments or None)
    response = three.call(1, CreatePartitionsRequest(topics=[wanted], timeout_ms=20_000), 3)
    return int(response.results[0].error_code)


def move(three: ThreeBrokers, topic: str, replicas: Sequence[int] | None) -> int:
    part = ReassignablePartition(partition_index=0, replicas=None if replicas is None else list(replicas))
    topics = [ReassignableTopic(name=topic, partitions=[part])]
    response = three.call(1, AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=20_000), 0)
    return int(response.responses[0].partitions[0].error_code)


def seen(three: ThreeBrokers, topic: str, node: int = 1) -> list[Any]:
    """For each partition: whether it has a leader, its replicas, in-sync replicas and offline replicas."""
    return [
        [each.leader_id in each.isr_nodes, sorted(each.replica_nodes), sorted(each.isr_nodes), each.offline_replicas]
        for _, each in sorted(three.partitions(topic, node).items())
    ]


def stop(three: ThreeBrokers, node: int) -> None:
    three.brokers[node].stop()
    away = [[id_, rack, id_ == node] for id_, rack, _ in EVERYBODY]
    others = [each for each in NODES if each != node]
    wait_until(lambda: all(described(three, each) == away for each in others), SETTLE_S, f"broker {node} is away")


def start(three: ThreeBrokers, node: int) -> None:
    three.brokers[node].start()
    wait_until(lambda: all(described(three, each) == EVERYBODY for each in NODES), SETTLE_S, f"broker {node} is back")


def becomes(three: ThreeBrokers, topic: str, *partitions: list[Any], node: int = 1) -> None:
    """Wait until a broker's metadata has exactly these partitions."""
    wait_until(lambda: seen(three, topic, node) == list(partitions), SETTLE_S, f"{topic}: {partitions}")


@pytest.fixture(autouse=True)
def all_are_there(three: ThreeBrokers) -> None:
    """Restore all brokers after the previous test."""
    if described(three) != EVERYBODY:
        three.brokers[3].kill()
        start(three, 3)


def test_a_broker_that_is_away_counts_for_new_replicas(three: ThreeBrokers, observe: Observations) -> None:
    three.create("moved", [1, 2])
    three.create("grown", [1, 2, 3])
    observe("all are there", [described(three), described(three, fenced=False)])
    stop(three, 3)
    observe("one is away", [described(three), described(three, fenced=False)])
    away = [True, [1, 2, 3], [1, 2], [3]]
    observe("three replicas", create(three, "three", 3))
    becomes(three, "three", away)
    observe("four replicas", create(three, "four", 4))
    observe("one by hand", create(three, "by-hand", -1, [3, 1]))
    becomes(three, "by-hand", [True, [1, 3], [1], [3]])
    observe("only it", create(three, "alone", -1, [3]))
    observe("only it, among others", create(three, "alone", -1, [1], [3]))
    observe("only it, to see", create(three, "alone", -1, [3], validate_only=True))
    observe("one that nobody knows", create(three, "alone", -1, [1, 9]))
    observe("more partitions", grow(three, "grown", 2))
    becomes(three, "grown", away, away)
    observe("more by hand", grow(three, "grown", 3, [3, 2, 1]))
    becomes(three, "grown", away, away, away)
    observe("more, only on it", grow(three, "by-hand", 2, [3, 9]))
    observe("move to it", move(three, "moved", [3, 1]))
    becomes(three, "moved", [True, [1, 2, 3], [1, 2], [3]])
    observe("and back", move(three, "moved", None))
    becomes(three, "moved", [True, [1, 2], [1, 2], []])
    start(three, 3)
    back = [True, [1, 2, 3], [1, 2, 3], []]
    becomes(three, "three", back)
    becomes(three, "grown", back, back, back)
    becomes(three, "by-hand", [True, [1, 3], [1, 3], []])
    three.produce("three", 0, 2)
    three.produce("by-hand", 0, 2)


def test_a_broker_that_is_away_is_unregistered(three: ThreeBrokers, observe: Observations) -> None:
    three.create("left", [1, 3])
    observe("unknown", [unregister(three, 9), unregister(three, -1)])
    stop(three, 3)
    observe("unregistered", unregister(three, 3))
    wait_until(lambda: len(described(three)) == 2, SETTLE_S, "it is forgotten")
    becomes(three, "left", [True, [1, 3], [1], [3]])
    observe("again", unregister(three, 3))
    observe("three replicas", create(three, "too-many", 3))
    observe("by hand", create(three, "unregistered", -1, [1, 3]))
    observe("move to it", move(three, "left", [1, 3, 2]))
    start(three, 3)
    becomes(three, "left", [True, [1, 3], [1, 3], []])
    observe("it is back", create(three, "enough", 3))


def _brokers_are(three: ThreeBrokers, node: int, count: int) -> bool:
    return len(described(three, node)) == count


def test_a_broker_that_runs_is_unregistered_until_it_is_started_anew(
    three: ThreeBrokers, observe: Observations
) -> None:
    three.create("shared", [3, 1])
    three.create("its-own", [3])
    three.produce("shared", 0, 3)
    three.produce("its-own", 0, 3)
    observe("unregistered", unregister(three, 3))
    for node in NODES:  # the unregistered broker itself as well
        becomes(three, "shared", [True, [1, 3], [1], [3]], node=node)
        becomes(three, "its-own", [False, [3], [], [3]], node=node)
        wait_until(partial(_brokers_are, three, node, 2), SETTLE_S, "the broker is removed")
    three.produce("shared", 0, 2)
    assert three.brokers[3].is_running()
    assert three.kind == "kafka" or "this broker was unregistered" in three.brokers[3].log_text()
    observe("replicas", [create(three, "without", 3), create(three, "with-two", 2)])
    three.brokers[3].kill()  # an unregistered Apache Kafka broker does not shut down cleanly
    start(three, 3)
    becomes(three, "shared", [True, [1, 3], [1, 3], []])
    becomes(three, "its-own", [True, [3], [3], []])
    three.produce("its-own", 0, 1)


def test_kafkas_own_tool_shows_and_unregisters_brokers(
    three: ThreeBrokers, java: JavaRunner, observe: Observations
) -> None:
    def tool(action: str, *more: str) -> list[Any]:
        result = java.tool("ClusterTool", action, "--bootstrap-server", three.bootstrap, *more, timeout_s=90)
        text = result.out
        for node in NODES:
            text = text.replace(str(three.brokers[node].port), f"PORT-{node}")
        return [result.status, [" ".join(line.split()) for line in text.splitlines()]]

    observe("all", tool("list-endpoints"))
    stop(three, 3)
    observe("without it", tool("list-endpoints"))
    observe("fenced", tool("list-endpoints", "--include-fenced-brokers"))
    observe("unregister", tool("unregister", "--id", "3"))
    wait_until(lambda: len(described(three)) == 2, SETTLE_S, "it is forgotten")
    observe("forgotten", tool("list-endpoints", "--include-fenced-brokers"))
    start(three, 3)
    observe("back", tool("list-endpoints", "--include-fenced-brokers"))
    request = MetadataRequest(topics=[])
    assert [len(three.call(node, request, 12).brokers) for node in NODES] == [3, 3, 3]


def test_kwires_own_tool_shows_and_unregisters_brokers_of_both_kinds(three: ThreeBrokers) -> None:
    def cluster(action: str, *more: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "kwire", "cluster", action, three.brokers[1].bootstrap, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    address = re.escape(three.brokers[3].bootstrap)
    assert re.search(rf"^ +3  {address} +rack-3", cluster("status")[1], re.M)
    stop(three, 3)
    status, shown = cluster("status")
    assert status == 1
    assert re.search(rf"^ +3  {address} away +rack-3 +0 ", shown, re.M)
    status, shown = cluster("unregister", "--id", "3")
    assert (status, shown) == (0, "broker 3 is not expected any more; it registers again when it is started\n")
    status, shown = cluster("unregister", "--id", "3")
    unknown = "kwire: broker 3: Broker ID 3 is not currently registered (BROKER_ID_NOT_REGISTERED)\n"
    assert (status, shown) == (1, unknown)
    assert re.search(r"^ +3  away ", cluster("status")[1], re.M)  # its replicas are still assigned to it
    assert cluster("unregister")[0] == cluster("status", "--id", "3")[0] == 2
    start(three, 3)
