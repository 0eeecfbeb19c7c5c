"""Where a stream begins, by timestamps of partitions or of all, and what happens if no record is that late."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import MICRO_BATCH, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from compat_tests.clients.pyspark.ported.test_offsets import WAYS, Growing, cases, topics
from compat_tests.names import Names

pytestmark = pytest.mark.java

FIRST_MS = int(time.time()) * 1000 - 5000
SECOND_MS = FIRST_MS + 1000
SECOND = (-21, -22, -11, -12, 2, 12)
"""The values with the second timestamp: in all partitions but the last."""
Grow = Callable[..., Growing]


@pytest.fixture
def filled(kafka: Kafka, new_name: Names) -> str:
    """A topic of five partitions with records of two times; the last partition has only early ones."""
    topic = kafka.create(new_name("t"), 5)
    first = ([-20], [-10], [0, 1], [10, 11], [20, 21, 22])
    second = ([-21, -22], [-11, -12], [2], [12])
    for time_ms, parts in ((FIRST_MS, first), (SECOND_MS, second)):
        for partition, values in enumerate(parts):
            kafka.send(topic, values, partition, timestamp=time_ms)
    return topic


@pytest.fixture
def case(kafka: Kafka, filled: str, source: Source, stream: Callable[..., Stream]) -> Grow:
    """``case(option, fails, starting…=…)``: a stream of the filled topic, not yet started."""

    def make(option: str, fails: bool, **options: Any) -> Growing:
        frame = source.read_stream(**topics(option, filled), failOnDataLoss=fails, **options)
        return Growing(kafka, filled, stream(frame), grows=option != "assign")

    return make


def by_partition(topic: str, *times_ms: int) -> str:
    return json.dumps({topic: dict(enumerate(times_ms))})


def goes_on(found: Growing) -> None:
    """What comes after the beginning: a stop, records that come meanwhile, more partitions."""
    found.restart()
    found.send_while_stopped(30, 31, 32)
    found.grow()
    found.send(40, 41, 42, 43, 44)


@pytest.mark.parametrize(("option", "fails"), cases("specific timestamps"))
def test_from_specific_timestamps(filled: str, case: Grow, option: str, fails: bool) -> None:
    times = by_partition(filled, *[SECOND_MS] * 4, FIRST_MS)
    found = case(option, fails, startingOffsetsByTimestamp=times)
    found.stream.start()
    found.check(*SECOND, 20, 21, 22)
    goes_on(found)


@pytest.mark.parametrize(("option", "fails"), cases("global timestamp per topic"))
def test_from_a_global_timestamp(kafka: Kafka, filled: str, case: Grow, option: str, fails: bool) -> None:
    kafka.send(filled, [23, 24], 4, timestamp=SECOND_MS)
    found = case(option, fails, startingTimestamp=SECOND_MS)
    found.stream.start()
    found.check(*SECOND, 23, 24)
    goes_on(found)


def not_matching() -> list[Any]:
    found = []
    for name, option in WAYS.items():
        if option != "assign":
            for kind in ("specific timestamps", "global timestamp per topic"):
                text = f"{name} from {kind} with non-matching starting offset"
                found.append(pytest.param(option, kind, marks=original(MICRO_BATCH, text), id=text))
    return found


@pytest.mark.parametrize(("option", "kind"), not_matching())
def test_a_timestamp_that_no_record_has(kafka: Kafka, filled: str, case: Grow, option: str, kind: str) -> None:
    """It is an error, unless the strategy is the latest offset."""
    start: dict[str, Any] = {"startingTimestamp": SECOND_MS}
    if kind == "specific timestamps":
        start = {"startingOffsetsByTimestamp": by_partition(filled, *[SECOND_MS] * 5)}
    for strategy in ({}, {"startingoffsetsbytimestampstrategy": "error"}):
        refused = case(option, True, **start, **strategy)
        with pytest.raises(StreamingQueryException, match=r"no offset of .* has a timestamp of"):
            refused.stream.start().process()
    found = case(option, True, **start, startingoffsetsbytimestampstrategy="latest")
    found.stream.start()
    found.check(*SECOND)
    kafka.send(filled, [23, 24, 25], 4, timestamp=SECOND_MS)
    found.check(23, 24, 25)
