"""Kafka's StreamsGroupCommand on streams groups: the same output on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from compat_tests.comparisons.streams_groups.member import Member
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java
_TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+\S*|\b\d{13}\b")


def test_groups_are_listed_described_reset_and_deleted(
    broker: Broker, java: JavaRunner, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic, group = make_topic(2), new_name("group")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2)
    assert producer.flush(20) == 0
    member = Member(broker, group, topic)
    member.join()
    member.commit(2)

    def tool(*arguments: str) -> list[list[str]]:
        result = java.tool("StreamsGroupCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        text = (result.out + result.err).replace(broker.bootstrap, "ADDRESS")
        text = re.sub(r"(\w+Exception:) .*", r"\1 WORDS", _TIMES.sub("TIME", text))
        lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith(("at ", "[20"))]
        return [line for line in lines if line]

    def listed(*arguments: str) -> list[list[str]]:
        return [line for line in tool("--list", *arguments) if group in line]

    observe("listed", listed())
    observe("listed with states", listed("--state"))
    for what in ("--offsets", "--members", "--state"):
        member.go_on()  # the tool may take long
        observe(f"describe {what}", sorted(tool("--describe", "--group", group, what)))
        observe(f"describe {what} verbose", sorted(tool("--describe", "--group", group, what, "--verbose")))
    member.go_on()
    observe("delete while it lives", tool("--delete", "--group", group))
    observe(
        "reset while it lives",
        tool("--reset-offsets", "--group", group, "--to-earliest", "--all-input-topics", "--execute"),
    )
    member.leave()
    wait_until(lambda: any("Empty" in line for line in tool("--describe", "--group", group, "--state")), 20, "empty")
    observe("listed when empty", listed("--state", "Empty"))
    observe("dry run", tool("--reset-offsets", "--group", group, "--to-latest", "--all-input-topics", "--dry-run"))
    observe("reset", tool("--reset-offsets", "--group", group, "--to-earliest", "--input-topic", topic, "--execute"))
    observe("offsets", sorted(tool("--describe", "--group", group, "--offsets")))
    observe("delete offsets", tool("--delete-offsets", "--group", group, "--input-topic", topic))
    observe("delete", tool("--delete", "--group", group))
    observe(
        "internal topics",
        [
            line
            for line in java.tool("TopicCommand", "--bootstrap-server", broker.bootstrap, "--list").out.split()
            if group in line
        ],
    )
    observe("describe nothing", tool("--describe", "--group", group))
    observe("delete nothing", tool("--delete", "--group", group))
