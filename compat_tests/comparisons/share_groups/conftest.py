"""Kafka's tools on share groups, with what differs between runs masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from compat_tests.comparisons.access.acls import LASTING_SESSIONS
from compat_tests.servers import running
from harness.java_runner import JavaRunner, ToolResult
from harness.processes.brokers import Broker, make_broker, wait_for

_SETTINGS = {
    **LASTING_SESSIONS,
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
}
"""A consumer gets its partitions with the second heartbeat, 5 s after the first one by default."""
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+\S*|\b\d{13}\b"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"(\w+Exception:) .*"), r"\1 WORDS"),
)
Lines = list[list[str]]


class Tool:
    """``tool("ShareGroupCommand", "--list")``: the words of each line that the tool prints."""

    def __init__(self, java: JavaRunner, broker: Broker) -> None:
        self._java = java
        self._broker = broker

    def __call__(self, name: str, *arguments: str) -> Lines:
        return self.masked(self.run(name, *arguments))

    def run(self, name: str, *arguments: str) -> ToolResult:
        """The tool's output as it is."""
        return self._java.tool(name, "--bootstrap-server", self._broker.bootstrap, *arguments)

    def until(self, shown: str, name: str, *arguments: str) -> Lines:
        """Run a tool until its output has ``shown``: Apache Kafka shows a change a moment after it was made."""
        what = f"{shown} in the output of {name} {' '.join(arguments)}"
        return self.masked(wait_for(lambda: self.run(name, *arguments), lambda result: shown in result.out, 20, what))

    def masked(self, result: ToolResult) -> Lines:
        """The words of the lines, without stack traces and log lines."""
        text = (result.out + result.err).replace(self._broker.bootstrap, "ADDRESS")
        for pattern, mask in _MASKS:
            text = pattern.sub(mask, text)
        lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith(("at ", "[TIME]"))]
        return [line for line in lines if line]


@pytest.fixture(scope="session")
def broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose share consumers get their partitions at once, for the tests of this folder."""
    prompt = make_broker(broker_kind, tmp_path_factory.mktemp(f"share-{broker_kind}"), _SETTINGS)
    with running(prompt, prompt.kill):
        yield prompt


@pytest.fixture
def tool(java: JavaRunner, broker: Broker) -> Tool:
    """Kafka's tools on the broker under test."""
    return Tool(java, broker)


@pytest.fixture
def produce(broker: Broker) -> Callable[[str, int, int], None]:
    """``produce(topic, partition, count)``: records ``0``, ``1``, ... with times that grow by a millisecond."""

    def write(topic: str, partition: int, count: int) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition, timestamp=1_760_000_000_000 + number)
        assert producer.flush(20) == 0

    return write
