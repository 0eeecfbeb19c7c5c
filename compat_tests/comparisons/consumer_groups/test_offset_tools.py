"""Kafka's ConsumerGroupCommand resets and deletes committed offsets of groups of both protocols: the same results."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java
FIRST_MS = 1_760_000_000_000
DATETIME = "2025-10-09T08:53:20.004"  # 4 ms after the first record


class Group:
    """A group, and Kafka's tool on it."""

    def __init__(self, broker: Broker, java: JavaRunner, name: str, protocol: str) -> None:
        self.name = name
        self._broker = broker
        self._java = java
        self._config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": name,
            "group.protocol": protocol,
            "log_level": 0,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "client.id": "client",
        }

    def consume(self, topics: list[str], count: int, positions: dict[tuple[str, int], int]) -> Consumer:
        """Run a member that reads ``count`` records and commits the offsets ``positions``."""
        consumer = Consumer(self._config)
        consumer.subscribe(topics)
        assert len(consumer.consume(count, 30)) == count
        offsets = [TopicPartition(topic, index, offset) for (topic, index), offset in positions.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        return consumer

    def tool(self, *arguments: str) -> list[object]:
        """The status and the words of each line; addresses, ids and error messages are masked."""
        result = self._java.tool(
            "ConsumerGroupCommand", "--bootstrap-server", self._broker.bootstrap, "--group", self.name, *arguments
        )
        text = (result.out + result.err).replace(self._broker.bootstrap, "ADDRESS")
        text = re.sub(r"(\w+Exception:?) .*", r"\1 WORDS", text)
        lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith(("at ", "[20", "..."))]
        return [result.status, sorted(line for line in lines if line)]

    def reset(self, *arguments: str) -> list[object]:
        return self.tool("--reset-offsets", *arguments)

    def is_empty(self) -> bool:
        return any("Empty" in line for line in self.tool("--describe", "--state")[1])  # type: ignore[attr-defined]


@pytest.fixture
def topics(broker: Broker, make_topic: Callable[..., str]) -> list[str]:
    """Two topics of two partitions, five records in each partition."""
    names = [make_topic(2), make_topic(2)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for name in names:
        for number in range(10):
            producer.produce(name, b"v", partition=number % 2, timestamp=FIRST_MS + number)
    assert producer.flush(20) == 0
    return names


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_positions_are_moved_and_deleted(
    protocol: str,
    broker: Broker,
    java: JavaRunner,
    topics: list[str],
    new_name: Names,
    observe: Observations,
    tmp_path: Path,
) -> None:
    group, (one, two) = Group(broker, java, new_name("group"), protocol), topics
    positions = {(one, 0): 3, (one, 1): 5, (two, 0): 1, (two, 1): 2}
    consumer = group.consume(topics, 20, positions)
    observe("reset while it lives", group.reset("--all-topics", "--to-earliest", "--execute"))
    observe("delete positions while it lives", group.tool("--delete-offsets", "--topic", one))
    consumer.close()
    wait_until(group.is_empty, 20, "an empty group")
    observe("dry run", group.reset("--topic", one, "--to-earliest", "--dry-run"))
    for how in (
        ["--topic", f"{one}:0", "--to-offset", "4"],
        ["--topic", f"{one}:0,1", "--to-offset", "99"],
        ["--topic", one, "--topic", two, "--shift-by", "-1"],
        ["--topic", two, "--shift-by", "-100"],
        ["--all-topics", "--to-datetime", DATETIME],
        ["--topic", one, "--by-duration", "P1D"],
        ["--all-topics", "--to-current"],
        ["--topic", two, "--to-latest"],
        ["--topic", "missing-topic", "--to-earliest"],
    ):
        observe(f"reset {how[2:]} of {len(how[1])}", group.reset(*how, "--execute"))
    observe("exported", group.reset("--all-topics", "--to-current", "--export", "--dry-run"))
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{one},0,2\n{two},1,1\n")
    observe("from a file", group.reset("--from-file", str(plan), "--execute"))
    observe("then", group.tool("--describe", "--offsets"))
    observe("delete positions of a partition", group.tool("--delete-offsets", "--topic", f"{one}:0"))
    observe("delete positions of a topic", group.tool("--delete-offsets", "--topic", two))
    observe("left", group.tool("--describe", "--offsets"))
    observe("delete", group.tool("--delete"))
    observe("reset of nothing", group.reset("--topic", one, "--to-earliest", "--execute"))
    observe("gone then", group.tool("--describe", "--offsets"))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_positions_of_transactions_are_seen_when_they_end(
    protocol: str, broker: Broker, java: JavaRunner, topics: list[str], new_name: Names, observe: Observations
) -> None:
    group, topic = Group(broker, java, new_name("group"), protocol), topics[0]
    consumer = group.consume([topic], 10, {(topic, 0): 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": new_name("txn"), "log_level": 0})
    producer.init_transactions(30)
    for commit, offset in ((False, 2), (True, 4)):
        producer.begin_transaction()
        position = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    consumer.close()
    wait_until(group.is_empty, 20, "an empty group")
    observe("described", group.tool("--describe", "--offsets"))
    observe("moved", group.reset("--topic", topic, "--shift-by", "-1", "--execute"))
    observe("deleted", group.tool("--delete"))
