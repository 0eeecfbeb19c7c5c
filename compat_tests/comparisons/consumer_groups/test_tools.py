"""Kafka's ConsumerGroupCommand on groups of the consumer protocol: the same output on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java
_ID = re.compile(r"(?<!\S)[A-Za-z0-9_/+-]{22}(?!\S)")  # member ids of librdkafka and Kafka have this form


def test_groups_are_listed_described_and_deleted(
    broker: Broker, java: JavaRunner, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic, group = make_topic(2), new_name("group")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2)
    assert producer.flush(20) == 0
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "client"}
    config |= {"group.protocol": "consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, 30)) == 10
    consumer.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 5)], asynchronous=False)

    def tool(*arguments: str) -> list[list[str]]:
        result = java.tool("ConsumerGroupCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        text = _ID.sub("ID", result.out + result.err).replace(broker.bootstrap, "ADDRESS")
        text = re.sub(r"(\w+Exception:) .*", r"\1 WORDS", text)
        lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith(("at ", "[20"))]
        return [line for line in lines if line]

    for kind in ("classic", "consumer"):
        listed = tool("--list", "--type", kind)
        observe(f"listed as {kind}", [line for line in listed if group in line])
    observe("listed with states", [line for line in tool("--list", "--state") if group in line])
    for what in ("--offsets", "--members", "--state"):
        observe(f"describe {what}", sorted(tool("--describe", "--group", group, what)))
        observe(f"describe {what} verbose", sorted(tool("--describe", "--group", group, what, "--verbose")))
    observe("delete while it lives", tool("--delete", "--group", group))
    consumer.close()
    wait_until(lambda: any("Empty" in line for line in tool("--describe", "--group", group, "--state")), 20, "empty")
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
    observe("reset", tool(*reset))
    observe("offsets", sorted(tool("--describe", "--group", group, "--offsets")))
    observe("delete", tool("--delete", "--group", group))
    observe("describe nothing", tool("--describe", "--group", group))
