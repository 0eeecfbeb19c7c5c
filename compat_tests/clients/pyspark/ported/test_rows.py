"""Rows of a stream and what Spark makes of them: columns, counts, windows, joins."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import MICRO_BATCH, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from compat_tests.names import Names

pytestmark = pytest.mark.java

Make = Callable[..., Stream]


@pytest.mark.quick
@original(MICRO_BATCH, "Kafka column types")
def test_columns(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    began_s, topic = time.time(), kafka.create(new_name("t"))
    kafka.send(topic, ["1"], headers=[("a", b"b"), ("c", b"d")])
    rows: list[Any] = []
    frame = source.read_stream(subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    stream(frame, take=lambda batch: rows.extend(batch.collect())).start().process()
    (row,) = rows
    assert (row.key, bytes(row.value), row.topic, row.partition, row.offset) == (None, b"1", topic, 0, 0)
    assert int(row.timestamp.timestamp() * 1000) >= int(began_s * 1000)
    assert row.timestampType == 0
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("a", b"b"), ("c", b"d")]


@original(MICRO_BATCH, "SPARK-56243: malformed record timestamp throws detailed error")
def test_a_timestamp_in_nanoseconds(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    time_ns = 1712345678123456789
    topic = kafka.create(new_name("t"), config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    kafka.send(topic, ["value"], 0, timestamp=time_ns)
    with pytest.raises(StreamingQueryException, match=f"{topic}-0: .* offset 0 has the timestamp {time_ns}"):
        stream(source.read_stream(subscribe=topic, startingOffsets="earliest")).start().process()


@original(MICRO_BATCH, "input row metrics")
def test_counts_of_rows(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 5)
    kafka.send(topic, [-1])
    found = stream(source.read_stream(subscribe=topic)).start(processingTime="1 millisecond").process()
    kafka.send(topic, [1, 2, 3])
    assert found.process().numbers == [1, 2, 3]
    assert sum(each["numInputRows"] for each in found.query.recentProgress) == 3


@original(MICRO_BATCH, "KafkaSource with watermark")
def test_a_window_with_a_watermark(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    from pyspark.sql import functions as f

    began_s, topic = time.time(), kafka.create(new_name("t"))
    kafka.send(topic, [1])
    frame = (
        source.read_stream(subscribe=topic, startingOffsets="earliest")
        .withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "5 seconds").alias("window"))
        .agg(f.count("*").alias("count"))
        .select(f.col("window.start").alias("window"), "count")
    )
    shown: list[list[Any]] = []
    stream(frame, take=lambda batch: shown.append(batch.collect()), mode="complete").start().process()
    (row,) = shown[-1]
    assert row.window.timestamp() >= began_s - 6
    assert row["count"] == 1


@original(MICRO_BATCH, "(de)serialization of initial offsets")
def test_a_stream_goes_on_that_has_read_nothing(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 5)
    found = stream(source.read_stream(subscribe=topic)).start().process()
    found.stop()
    found.start().process()
    found.stop()
    assert found.query.exception() is None
    assert found.numbers == []


@original(MICRO_BATCH, "SPARK-30656: minPartitions")
def test_more_tasks_than_partitions(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 3)
    for partition, values in enumerate((range(10), range(10, 20), [20])):
        kafka.send(topic, values, partition)
    rows: list[Any] = []
    frame = source.read_stream(subscribe=topic, startingOffsets="earliest", minPartitions="6")
    stream(
        frame.selectExpr("spark_partition_id() as task", "cast(value as string) as value"),
        take=lambda batch: rows.extend(batch.collect()),
    ).start().process()
    assert len({row.task for row in rows}) >= 6
    assert {int(row.value) for row in rows} == {*range(21)}


@original(MICRO_BATCH, "ensure stream-stream self-join generates only one offset in log and correct metrics")
@pytest.mark.parametrize("reuses", [False, True], ids=["each-side-reads", "one-exchange"])
def test_a_stream_joined_with_itself(kafka: Kafka, source: Source, stream: Make, new_name: Names, reuses: bool) -> None:
    topic = kafka.create(new_name("t"), 2)
    numbers = source.read_stream(subscribe=topic).selectExpr(
        "cast(cast(value as string) as int) as value", "cast(cast(value as string) as int) % 5 as key"
    )
    rows: list[tuple[int, ...]] = []
    joined = stream(numbers.join(numbers, "key"), take=lambda batch: rows.extend(map(tuple, batch.collect())))
    setting = "spark.sql.exchange.reuse"
    before = source.spark.conf.get(setting)
    source.spark.conf.set(setting, str(reuses).lower())
    try:
        joined.start().process()
        kafka.send(topic, [1, 2])
        joined.process()
        assert sorted(rows) == [(1, 1, 1), (2, 2, 2)]
        kafka.send(topic, [6, 3])
        joined.process()
        assert sorted(rows) == [(1, 1, 1), (1, 1, 6), (1, 6, 1), (1, 6, 6), (2, 2, 2), (3, 3, 3)]
        progress = joined.query.recentProgress
    finally:
        source.spark.conf.set(setting, before)
    assert {len(each["sources"]) for each in progress} == {1}, "one source, one offset"
    assert sum(each["numInputRows"] for each in progress) == (4 if reuses else 8)


@original(MICRO_BATCH, "default config of includeHeader doesn't break existing query from Spark 2.4")
def test_a_checkpoint_of_spark_2_4(strict: Kafka, strict_source: Source, tmp_path: Path, stream: Make) -> None:
    """Written by Spark's own source, with state of dropDuplicates; the query goes on with ``format("kwire")``."""
    import shutil

    from compat_tests.suites.spark import jars

    topic = "spark-test-topic-2b8619f5-d3c4-4c2d-b5d1-8d9d9458aa62"
    strict.create(topic, 5)
    for partition, first in enumerate((-20, -10, 0, 10, 20)):
        step = -1 if first < 0 else 1
        strict.send(topic, range(first, first + 3 * step, step), partition)
    for number in range(31, 36):
        strict.send(topic, [number], number - 31, headers=[("a", b"b"), ("c", b"d")])
    frame = strict_source.read_stream(subscribePattern=topic, startingOffsets="earliest").dropDuplicates()
    found = stream(frame)
    saved = jars.suites() / "structured-streaming" / "checkpoint-version-2.4.3-kafka-include-headers-default"
    shutil.copytree(saved, found.checkpoint, ignore=shutil.ignore_patterns(".*.crc"))
    assert found.start().process().numbers == [*range(31, 36)]
