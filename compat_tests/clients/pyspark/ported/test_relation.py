"""Batch queries: offsets, timestamps, headers, transactions, and what a frame shows when it is used again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException

from compat_tests.clients.pyspark.ported.support.kafka import Headers, Kafka
from compat_tests.clients.pyspark.ported.support.originals import RELATION, original
from compat_tests.clients.pyspark.ported.support.streams import Source, numbers
from compat_tests.names import Names

pytestmark = pytest.mark.java

FIRST_MS = int(time.time()) * 1000 - 5000
TIMES_MS = [FIRST_MS, FIRST_MS + 1000, FIRST_MS + 2000, FIRST_MS + 3000]
NEVER_MS = 2**63 - 1


@pytest.fixture
def filled(kafka: Kafka, new_name: Names) -> str:
    """Three partitions with the numbers 0 to 9, 10 to 19, 20."""
    topic = kafka.create(new_name("t"), 3)
    for partition, values in enumerate((range(10), range(10, 20), [20])):
        kafka.send(topic, values, partition)
    return topic


@pytest.fixture
def timed(kafka: Kafka, new_name: Names) -> str:
    """The numbers 0 to 29, n in partition n % 3; ten have one time."""
    topic = kafka.create(new_name("t"), 3)
    for first, time_ms in zip((0, 10, 20), TIMES_MS, strict=False):
        for partition in range(3):
            values = [each for each in range(first, first + 10) if each % 3 == partition]
            kafka.send(topic, values, partition, timestamp=time_ms)
    return topic


Reads = Callable[..., list[int]]


@pytest.fixture
def reads(source: Source, timed: str) -> Reads:
    """The numbers that a query of the topic with times reads."""
    return lambda **options: numbers(source.read(subscribe=timed, **options))


def each(topic: str, *values: int) -> str:
    return json.dumps({topic: dict(enumerate(values))})


@pytest.mark.quick
@original(RELATION, "explicit earliest to latest offsets")
def test_from_earliest_to_latest(kafka: Kafka, source: Source, filled: str) -> None:
    """The latest offset is that of the moment when the frame is read."""
    frame = source.read(subscribe=filled, startingOffsets="earliest", endingOffsets="latest")
    assert numbers(frame) == [*range(21)]
    kafka.send(filled, range(21, 30), 2)
    assert numbers(frame) == [*range(30)]


@original(RELATION, "default starting and ending offsets")
def test_by_default_all_is_read(source: Source, filled: str) -> None:
    assert numbers(source.read(subscribe=filled)) == [*range(21)]


@original(RELATION, "explicit offsets")
def test_offsets_by_partition(kafka: Kafka, source: Source, filled: str) -> None:
    frame = source.read(
        subscribe=filled, startingOffsets=each(filled, -2, -2, 0), endingOffsets=each(filled, -1, -1, 1)
    )
    used = frame.selectExpr("cast(value as string) as value")
    assert numbers(used) == [*range(21)]
    kafka.send(filled, range(31, 40), 2)
    assert numbers(used) == [*range(21)], "the end of partition 2 is given"
    kafka.send(filled, range(21, 31), 1)
    assert numbers(used) == [*range(31)]


@original(RELATION, "default starting and ending offsets with headers")
def test_headers(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 3)
    headers: list[Headers] = [[], [("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", b"g")]]
    for partition, own in enumerate(headers):
        kafka.send(topic, [partition + 1], partition, headers=own)
    rows = source.read(subscribe=topic, includeHeaders="true").orderBy("partition").collect()
    assert [bytes(row.value) for row in rows] == [b"1", b"2", b"3"]
    found = [row.headers and [(one.key, bytes(one.value)) for one in row.headers] for row in rows]
    assert found == [None, [("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", b"g")]]


@original(RELATION, "timestamp provided for starting and ending")
def test_timestamps(timed: str, reads: Reads) -> None:
    start, end = each(timed, *[TIMES_MS[1]] * 3), each(timed, *[TIMES_MS[2]] * 3)
    assert reads(startingOffsetsByTimestamp=start, endingOffsetsByTimestamp=end) == [*range(10, 20)]


@original(RELATION, "timestamp provided for starting, offset provided for ending")
def test_from_timestamps_to_offsets(timed: str, reads: Reads) -> None:
    start, end = each(timed, *[TIMES_MS[0]] * 3), each(timed, -1, -1, 1)
    expected = [number for number in range(30) if number % 3 != 2 or number == 2]
    assert reads(startingOffsetsByTimestamp=start, endingOffsets=end) == expected


@original(RELATION, "timestamp provided for ending, offset provided for starting")
def test_from_offsets_to_timestamps(timed: str, reads: Reads) -> None:
    start, end = each(timed, -2, -2, 0), each(timed, *[TIMES_MS[2]] * 3)
    assert reads(startingOffsets=start, endingOffsetsByTimestamp=end) == [*range(20)]


@original(RELATION, "timestamp provided for starting, ending not provided")
def test_from_timestamps(timed: str, reads: Reads) -> None:
    assert reads(startingOffsetsByTimestamp=each(timed, *[TIMES_MS[1]] * 3)) == [*range(10, 30)]


@original(RELATION, "timestamp provided for ending, starting not provided")
def test_to_timestamps(timed: str, reads: Reads) -> None:
    assert reads(endingOffsetsByTimestamp=each(timed, *[TIMES_MS[2]] * 3)) == [*range(20)]


@original(RELATION, "global timestamp provided for starting and ending")
def test_one_timestamp_for_all_partitions(reads: Reads) -> None:
    assert reads(startingTimestamp=TIMES_MS[1], endingTimestamp=TIMES_MS[2]) == [*range(10, 20)]


@original(RELATION, "no matched offset for timestamp - startingOffsets")
def test_no_record_is_as_late_as_the_start(timed: str, reads: Reads) -> None:
    start = each(timed, TIMES_MS[1], TIMES_MS[1], NEVER_MS)
    with pytest.raises(PySparkException, match=f"no offset of {timed}-2 has a timestamp of {NEVER_MS} or later"):
        reads(startingOffsetsByTimestamp=start)


@original(RELATION, "no matched offset for timestamp - endingOffsets")
def test_no_record_is_as_late_as_the_end(timed: str, reads: Reads) -> None:
    """Then the partition is read to its end."""
    end = each(timed, TIMES_MS[1], TIMES_MS[1], NEVER_MS)
    expected = [number for number in range(30) if number < 10 or number % 3 == 2]
    assert reads(endingOffsetsByTimestamp=end) == expected


@original(RELATION, "preferences on offset related options")
def test_which_option_comes_first(timed: str, reads: Reads) -> None:
    by_partition = {"startingOffsetsByTimestamp": each(timed, *[TIMES_MS[1]] * 3), "startingOffsets": "earliest"}
    assert reads(startingTimestamp=TIMES_MS[2], **by_partition) == [*range(20, 30)]
    assert reads(**by_partition) == [*range(10, 30)]


@original(RELATION, "reuse same dataframe in query")
def test_a_frame_twice_in_a_query(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    kafka.send(topic, range(11), 0)
    frame = source.read(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert numbers(frame.union(frame)) == sorted([*range(11), *range(11)])


@original(RELATION, "test late binding start offsets")
def test_the_start_is_that_of_the_moment_when_the_frame_is_read(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    kafka.send(topic, range(10), 0)
    frame = source.read(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    used = frame.selectExpr("cast(value as string) as value")
    assert numbers(used) == [*range(10)]
    kafka.cut(topic, 0, 10)
    kafka.send(topic, range(10, 20), 0)
    assert numbers(used) == [*range(10, 20)]


@original(RELATION, "SPARK-30656: minPartitions")
def test_more_tasks_than_partitions(kafka: Kafka, source: Source, filled: str) -> None:
    frame = source.read(subscribe=filled, minPartitions="6").selectExpr("cast(value as string) as value")
    rows = frame.rdd
    assert rows.getNumPartitions() >= 6
    assert {int(row.value) for row in rows.collect()} == {*range(21)}
    kafka.send(filled, range(21, 31))
    assert {int(row.value) for row in rows.collect()} == {*range(31)}
    assert {int(row.value) for row in frame.rdd.collect()} == {*range(31)}


def transactions(kafka: Kafka, new_name: Names) -> tuple[str, Any]:
    return kafka.create(new_name("t")), kafka.transactions(new_name("tx"))


@original(RELATION, "read Kafka transactional messages: read_committed")
def test_read_committed(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic, producer = transactions(kafka, new_name)
    frame = source.read(subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    producer.begin(topic, range(1, 6))
    assert frame.isEmpty(), "not committed yet"
    producer.commit(topic, 6)
    assert numbers(frame) == [*range(1, 6)]
    producer.begin(topic, range(6, 11))
    producer.abort(topic, 12)
    assert numbers(frame) == [*range(1, 6)]
    producer.begin(topic, range(11, 16))
    producer.commit(topic, 18)
    assert numbers(frame) == [*range(1, 6), *range(11, 16)]


@original(RELATION, "read Kafka transactional messages: read_uncommitted")
def test_read_uncommitted(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic, producer = transactions(kafka, new_name)
    frame = source.read(subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"})
    producer.begin(topic, range(1, 6))
    assert numbers(frame) == [*range(1, 6)], "not committed yet"
    producer.commit(topic, 6)
    assert numbers(frame) == [*range(1, 6)]
    producer.begin(topic, range(6, 11))
    producer.abort(topic, 12)
    assert numbers(frame) == [*range(1, 11)]
    producer.begin(topic, range(11, 16))
    producer.commit(topic, 18)
    assert numbers(frame) == [*range(1, 16)]


@original(RELATION, "resolved start offset greater than end offset (without latest)")
def test_a_start_after_the_record_of_a_timestamp(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 3)
    for partition in range(3):
        kafka.send(topic, [0], partition, timestamp=TIMES_MS[0])
        kafka.send(topic, [0], partition, timestamp=TIMES_MS[1])
    end = {"endingOffsetsByTimestamp": each(topic, *[TIMES_MS[1]] * 3)}
    with pytest.raises(PySparkException, match=f"{topic}-0 begins at 3, after its end at 1"):
        source.read(subscribe=topic, startingOffsets=each(topic, 3, 3, 3), **end).collect()


@original(RELATION, "resolved start offset greater than end offset (with latest)")
def test_a_start_after_the_last_record(kafka: Kafka, source: Source, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 3)
    with pytest.raises(PySparkException, match=f"{topic}-0 begins at 1, after its end at 0"):
        source.read(subscribe=topic, startingOffsets=each(topic, 1, 1, 1)).collect()
