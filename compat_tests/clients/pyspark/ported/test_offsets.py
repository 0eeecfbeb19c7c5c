"""Where a stream begins, by offsets: at the latest, at the earliest, at given ones; and how it goes on after a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import MICRO_BATCH, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from compat_tests.names import Names

pytestmark = pytest.mark.java

WAYS: Final = {
    "assign": "assign",
    "subscribing topic by name": "subscribe",
    "subscribing topic by pattern": "subscribePattern",
}
"""How Spark's names of tests begin -> the option for the topics."""


def cases(beginning: str) -> list[Any]:
    """Each way to name topics, with either answer to lost records."""
    found = []
    for name, option in WAYS.items():
        for fails in (True, False):
            text = f"{name} from {beginning} (failOnDataLoss: {str(fails).lower()})"
            found.append(pytest.param(option, fails, marks=original(MICRO_BATCH, text), id=text))
    return found


def topics(option: str, topic: str) -> dict[str, str]:
    """The option that names a topic of five partitions."""
    return {
        option: {"assign": json.dumps({topic: [*range(5)]}), "subscribePattern": f"{topic[:-1]}.*"}.get(option, topic)
    }


class Growing:
    """A stream on a topic of five partitions, and what happens to both."""

    def __init__(self, kafka: Kafka, topic: str, stream: Stream, *, grows: bool) -> None:
        self.kafka = kafka
        self.topic = topic
        self.stream = stream
        self.grows = grows
        self.expected: list[int] = []

    def check(self, *more: int) -> None:
        """Whether the stream has read so much more, and nothing else."""
        self.expected += more
        assert self.stream.process().numbers == sorted(self.expected)

    def send(self, *values: int) -> None:
        """Write to all partitions in turn, and see it come."""
        self.kafka.send(self.topic, values)
        self.check(*values)

    def send_while_stopped(self, *values: int) -> None:
        """Write while the query is stopped."""
        self.stream.stop()
        self.kafka.send(self.topic, values)
        self.stream.start()
        self.check(*values)

    def restart(self) -> None:
        """After a stop nothing comes twice."""
        self.stream.restart()
        self.check()

    def grow(self) -> None:
        """Ten partitions, unless the query names its own."""
        if self.grows:
            self.kafka.grow(self.topic, 10)


@pytest.fixture
def growing(
    kafka: Kafka, source: Source, stream: Callable[..., Stream], new_name: Names
) -> Callable[[str, bool, dict[str, str]], Growing]:
    """``growing(option, fails, options)``: the topic is created, the query not yet started."""

    def make(option: str, fails: bool, options: dict[str, str]) -> Growing:
        topic = kafka.create(new_name("t"), 5)
        given = {key: value.replace("TOPIC", topic) for key, value in options.items()}
        frame = source.read_stream(**topics(option, topic), failOnDataLoss=fails, **given)
        return Growing(kafka, topic, stream(frame), grows=option != "assign")

    return make


Grow = Callable[[str, bool, dict[str, str]], Growing]


@pytest.mark.parametrize(("option", "fails"), cases("latest offsets"))
def test_from_latest_offsets(growing: Grow, option: str, fails: bool) -> None:
    case = growing(option, fails, {"startingOffsets": "latest"})
    case.kafka.send(case.topic, [-1])
    case.stream.start()
    case.check()
    case.send(1, 2, 3)
    case.restart()
    case.send_while_stopped(4, 5, 6)
    case.send(7, 8)
    case.grow()
    case.send(*range(9, 17))


@pytest.mark.parametrize(("option", "fails"), cases("earliest offsets"))
def test_from_earliest_offsets(growing: Grow, option: str, fails: bool) -> None:
    case = growing(option, fails, {"startingOffsets": "earliest"})
    case.kafka.send(case.topic, [1, 2, 3])
    case.stream.start()
    case.check(1, 2, 3)
    case.send(4, 5, 6)
    case.restart()
    case.send_while_stopped(7, 8)
    case.grow()
    case.send(*range(9, 17))


@pytest.mark.parametrize(("option", "fails"), cases("specific offsets"))
def test_from_specific_offsets(growing: Grow, option: str, fails: bool) -> None:
    """-2 is the earliest offset, -1 the latest."""
    case = growing(option, fails, {"startingOffsets": '{"TOPIC": {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2}}'})
    for partition, first in enumerate((-22, -12, 0, 10, 20)):
        case.kafka.send(case.topic, range(first, first + 3), partition)
    case.stream.start()
    case.check(-22, -21, -20, 0, 1, 2, 11, 12, 22)
    case.restart()
    case.send(30, 31, 32, 33, 34)


@original(MICRO_BATCH, "subscribing topics from topic-level offsets")
def test_a_word_for_each_topic(kafka: Kafka, source: Source, stream: Callable[..., Stream], new_name: Names) -> None:
    first, second = kafka.create(new_name("t"), 3), kafka.create(new_name("t"), 2)
    kafka.send(first, [1, 2, 3], 0)
    kafka.send(second, [11], 0)
    start = json.dumps({first: "earliest", second: "latest"})
    found = stream(source.read_stream(subscribe=f"{first},{second}", startingOffsets=start)).start()
    assert found.process().numbers == [1, 2, 3]
    kafka.send(second, [12], 0)
    kafka.send(first, [4])
    assert found.process().numbers == [1, 2, 3, 4, 12]
    found.restart()
    assert found.process().numbers == [1, 2, 3, 4, 12]


@original(MICRO_BATCH, "topic-level offsets tolerate a new topic matching subscribePattern after the start")
def test_a_word_for_the_topics_that_there_are(
    kafka: Kafka, source: Source, stream: Callable[..., Stream], new_name: Names
) -> None:
    prefix = new_name("t")
    first = kafka.create(f"{prefix}-a")
    kafka.send(first, [1], 0)
    start = json.dumps({first: "earliest"})
    found = stream(source.read_stream(subscribePattern=f"{prefix}-.*", startingOffsets=start)).start()
    assert found.process().numbers == [1]
    kafka.send(kafka.create(f"{prefix}-b"), [2], 0)
    assert found.process().numbers == [1, 2]
