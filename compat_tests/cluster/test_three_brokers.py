"""Kafka's tools on a cluster, and fetching from followers (KIP-392): the same on three brokers of each kind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster.three_brokers import NODES, SETTLE_S, ThreeBrokers
from harness.java_runner import JavaRunner, ToolResult
from harness.observations import Observations
from harness.processes.brokers import wait_until
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.java

TROUBLES = (
    "--under-replicated-partitions",
    "--unavailable-partitions",
    "--under-min-isr-partitions",
    "--at-min-isr-partitions",
)


class Tool:
    """``tool("TopicCommand", "--list")`` on the cluster; masks what differs between runs."""

    def __init__(self, java: JavaRunner, cluster: ThreeBrokers) -> None:
        self._java = java
        self._cluster = cluster

    def __call__(self, name: str, *arguments: str) -> list[Any]:
        result: ToolResult = self._java.tool(
            name, "--bootstrap-server", self._cluster.bootstrap, *arguments, timeout_s=120
        )
        return [result.status, self._masked(result.out), self._masked(result.err)]

    def _masked(self, text: str) -> list[str]:
        for node, broker in self._cluster.brokers.items():
            text = text.replace(str(broker.data_dir), f"DATA-{node}")
        text = re.sub(r"TopicId: \S+", "TopicId: ID", text)
        text = re.sub(r"(\w+Exception:) .*", r"\1 WORDS", text)
        text = re.sub(r"((?:Isr|Elr|LastKnownElr): )([\d,]+)", _sorted_numbers, text)
        return [line.rstrip() for line in text.splitlines() if line.strip() and not re.match(r"\s+at |\[", line)]

    def describe(self, topic: str, *more: str) -> list[Any]:
        return self("TopicCommand", "--describe", "--topic", topic, *more)

    def configs(self, topic: str) -> dict[str, Any]:
        """The configuration of the topic and of each broker."""
        seen = {"topic": self("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", topic)}
        for node in NODES:
            where = ["--entity-type", "brokers", "--entity-name", str(node)]
            lines = self("ConfigCommand", "--describe", *where)
            lines[1] = [line for line in lines[1] if "throttled" in line or "Dynamic" in line]
            seen[f"broker {node}"] = lines
        return seen


def _sorted_numbers(match: re.Match[str]) -> str:
    return match[1] + ",".join(sorted(match[2].split(",")))


def everywhere(*nodes: int) -> dict[int, set[int]]:
    """Three partitions with these brokers in sync."""
    return {index: set(nodes) for index in range(3)}


@pytest.fixture
def tool(java: JavaRunner, three: ThreeBrokers) -> Tool:
    return Tool(java, three)


def test_partitions_in_trouble_are_told_and_preferred_leaders_come_back(
    three: ThreeBrokers, tool: Tool, observe: Observations
) -> None:
    topic = "described"
    three.create(topic, [1, 2, 3], [2, 3, 1], [3, 1, 2], min_insync_replicas="2")
    three.create("alone", [3])
    observe("all is well", tool.describe(topic))
    for trouble in TROUBLES:
        observe(f"well {trouble}", tool.describe(topic, trouble))
    three.brokers[3].stop()
    three.until_isr(topic, everywhere(1, 2))
    observe("the only one is down", tool.describe("alone", "--unavailable-partitions"))
    observe("the only one is in no sync", tool.describe("alone"))
    observe("one is down", tool.describe(topic))
    for trouble, count in zip(TROUBLES, (3, 0, 0, 3), strict=True):
        output = tool.describe(topic, trouble)
        observe(f"one is down {trouble}", output)
        assert len(output[1]) == count
    three.brokers[2].stop()
    three.until_isr(topic, everywhere(1))
    observe("two are down", tool.describe(topic))
    for trouble, count in zip(TROUBLES, (3, 0, 3, 0), strict=True):
        output = tool.describe(topic, trouble)
        observe(f"two are down {trouble}", output)
        assert len(output[1]) == count
    for node in (2, 3):
        three.brokers[node].start()
    three.until_isr(topic, everywhere(1, 2, 3))
    observe("all are back", tool.describe(topic))
    one = ["--election-type", "preferred", "--topic", topic, "--partition"]
    observe("elect one", tool("LeaderElectionCommand", *one, "1"))
    observe("elect it again", tool("LeaderElectionCommand", *one, "1"))
    observe("elect what is not there", tool("LeaderElectionCommand", *one, "9"))
    status, out, err = tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    observe("elect all", [status, re.findall(rf"{topic}-\d|Success\w*|Valid\w*", " ".join(out)), err])
    three.until_led(topic, {0: 1, 1: 2, 2: 3})
    observe("elected", tool.describe(topic))


def test_an_unclean_leader_is_elected_by_hand(three: ThreeBrokers, tool: Tool, observe: Observations) -> None:
    topic = "unclean"
    three.create(topic, [2, 3])
    three.brokers[3].stop()
    three.until_isr(topic, {0: {2}})
    three.produce(topic, 0, 3, acks=1)
    three.brokers[2].stop()
    three.until_led(topic, {0: -1})
    three.brokers[3].start()
    three.until_led(topic, {0: -1})
    observe("before", tool.describe(topic, "--unavailable-partitions"))
    one = ["--topic", topic, "--partition", "0"]
    observe("preferred", tool("LeaderElectionCommand", "--election-type", "preferred", *one))
    observe("unclean", tool("LeaderElectionCommand", "--election-type", "unclean", *one))
    three.until_led(topic, {0: 3})
    observe("unclean again", tool("LeaderElectionCommand", "--election-type", "unclean", *one))
    observe("elected", tool.describe(topic))
    three.brokers[2].start()
    three.until_isr(topic, {0: {2, 3}})
    observe("lost", [three.call(node, fetch(topic), 12).responses[0].partitions[0].high_watermark for node in (3,)])


def test_partitions_are_moved_under_a_throttle(
    three: ThreeBrokers, tool: Tool, observe: Observations, tmp_path: Path
) -> None:
    topic, command = "moved", "ReassignPartitionsCommand"
    three.create(topic, [1, 2], [2, 3])
    three.produce(topic, 0, 30, size=10_000)

    def plan(name: str, *replicas: list[int]) -> list[str]:
        partitions = [{"topic": topic, "partition": index, "replicas": ids} for index, ids in enumerate(replicas)]
        path = tmp_path / name
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return ["--reassignment-json-file", str(path)]

    topics = tmp_path / "topics"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = tool(command, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    observe("generate", [generated[0], generated[1][:2], [len(line) for line in generated[1][2:]], generated[2]])
    target = plan("target", [3, 2], [2, 3])
    observe("execute", tool(command, "--execute", "--throttle", "1000", *target))
    three.until_throttled(topic, True)
    configs = tool.configs(topic)
    observe("set", configs)
    assert all("replication.throttled.rate=1000 " in " ".join(configs[f"broker {node}"][1]) for node in NODES)
    observe("list", tool(command, "--list"))
    observe("under way", tool.describe(topic))
    assert set(three.partitions(topic)[0].isr_nodes) == {1, 2}  # the third broker would take five minutes
    observe("reassigning", tool("TopicCommand", "--describe", "--under-replicated-partitions", "--topic", topic))
    observe("verify", tool(command, "--verify", *target, "--preserve-throttles"))
    other = plan("other", [3, 2], [1, 3])
    observe("execute another", tool(command, "--execute", *other))
    observe("execute another as well", tool(command, "--execute", "--additional", "--throttle", "2000", *other))
    observe("set anew", tool.configs(topic))
    three.until_isr(topic, {1: {1, 3}})
    observe("cancel", tool(command, "--cancel", *target))
    three.until_throttled(topic, False)
    observe("cancelled", tool.describe(topic))
    observe("cancel again", tool(command, "--cancel", *target))
    configs = tool.configs(topic)
    observe("set afterwards", configs)
    assert not any("throttled" in line for _, out, _ in configs.values() for line in out)
    observe("execute without a throttle", tool(command, "--execute", *target))
    three.until_isr(topic, {0: {2, 3}, 1: {2, 3}})
    wait_until(lambda: tool(command, "--list")[1] == ["No partition reassignments found."], SETTLE_S, "the end")
    observe("verify in the end", tool(command, "--verify", *target))
    observe("moved", tool.describe(topic))
    assert [list(each.replica_nodes) for each in three.partitions(topic).values()] == [[3, 2], [2, 3]]
    wrong = plan("wrong", [3, 9], [2, 3])
    observe("execute what cannot be", tool(command, "--execute", *wrong))
    observe("verify what is not so", tool(command, "--verify", *plan("not so", [1, 2], [2, 3])))


def fetch(topic: str, rack: str = "", offset: int = 0, epoch: int = -1) -> FetchRequest:
    requested = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000, current_leader_epoch=epoch)
    topics = [FetchTopic(topic=topic, partitions=[requested])]
    return FetchRequest(max_wait_ms=100, min_bytes=0, max_bytes=10_000, topics=topics, rack_id=rack)


def test_consumers_are_sent_to_the_replica_in_their_rack(three: ThreeBrokers, observe: Observations) -> None:
    topic = "near"
    three.create(topic, [1, 2])
    three.produce(topic, 0, 5)

    def fetched(node: int, version: int, **options: Any) -> list[Any]:
        part = three.call(node, fetch(topic, **options), version).responses[0].partitions[0]
        return [part.error_code, part.high_watermark, part.preferred_read_replica, len(part.records or b"")]

    wait_until(lambda: fetched(2, 12)[1] == 5, SETTLE_S, "the follower's high watermark")
    for version in (10, 11, 12):
        for rack in ("", "rack-1", "rack-2", "rack-3", "elsewhere"):
            response = fetched(1, version, rack=rack)
            observe(f"leader {version} {rack}", response)
            assert response[2] == (2 if rack == "rack-2" and version >= 11 else -1)
        for offset in (-1, 0, 5, 6):
            observe(f"leader {version} offset {offset}", fetched(1, version, rack="rack-2", offset=offset))
            observe(f"follower {version} offset {offset}", fetched(2, version, rack="rack-2", offset=offset))
        for epoch in (0, 1):
            observe(f"leader {version} epoch {epoch}", fetched(1, version, rack="rack-2", epoch=epoch))
            observe(f"follower {version} epoch {epoch}", fetched(2, version, epoch=epoch))
        observe(f"no replica {version}", fetched(3, version))


@pytest.mark.parametrize("version", [1, 4, 7, 11])
def test_any_replica_lists_offsets_for_debugging(three: ThreeBrokers, observe: Observations, version: int) -> None:
    topic = f"debugged-{version}"
    three.create(topic, [1, 2])
    three.produce(topic, 0, 5)
    wait_until(
        lambda: three.call(2, fetch(topic), 12).responses[0].partitions[0].high_watermark == 5, SETTLE_S, "the follower"
    )
    for replica in (-1, -2):
        for timestamp in (-1, -2, 0, 2**62):
            requested = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
            topics = [ListOffsetsTopic(name=topic, partitions=[requested])]
            request = ListOffsetsRequest(replica_id=replica, topics=topics)
            for node in NODES:
                found = three.call(node, request, version).topics[0].partitions[0]
                facts = [found.error_code, found.timestamp, found.offset, found.leader_epoch]
                observe(f"replica {replica}, time {timestamp}, broker {node}", facts)


def test_a_java_consumer_reads_nearby(three: ThreeBrokers, java: JavaRunner) -> None:
    topic = "read-nearby"
    three.create(topic, [1, 2, 3])
    three.produce(topic, 0, 5)
    arguments = ["--topic", topic, "--from-beginning", "--max-messages", "5", "--timeout-ms", "60000"]
    for node in NODES:
        rack = ["--command-property", f"client.rack=rack-{node}"]
        result = java.tool("ConsoleConsumer", "--bootstrap-server", three.bootstrap, *arguments, *rack, timeout_s=90)
        assert result.check().out.splitlines() == ["x" * 100] * 5
