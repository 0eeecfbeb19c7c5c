"""Spark's Kafka source and sink through PySpark: the same frames from both brokers, whatever way they are asked for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.brokers import Broker
from compat_tests.conftest import Names

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

PARTITIONS = 3
RECORDS = 300
FIRST_MS = int(time.time()) * 1000 - 3_600_000  # within the retention time


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from kwire.spark.pipeline import spark_session

    with contextlib.chdir(tmp_path_factory.mktemp("spark")):  # Spark leaves folders where it starts
        session = spark_session("kwire compat tests", spark_driver_memory="512m")
    yield session
    session.stop()


@pytest.fixture
def filled(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A topic of three partitions with one record each second: number i in partition i % 3."""
    topic = make_topic(PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"})
    for number in range(RECORDS):
        producer.produce(
            topic,
            partition=number % PARTITIONS,
            key=None if number % 7 == 0 else f"k{number % 10}".encode(),
            value=None if number % 11 == 0 else f"v{number}".encode(),
            timestamp=FIRST_MS + number * 1000,
            headers=[("number", str(number).encode()), ("empty", None)],
        )
    assert producer.flush(30) == 0
    return topic


def reader(spark: Any, broker: Broker, topic: str, **options: Any) -> Any:
    frame = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    for name, value in options.items():
        frame = frame.option(name, value)
    return frame.load()


def values(frame: Any) -> list[str | None]:
    return sorted((row.value and bytes(row.value).decode() for row in frame.select("value").collect()), key=str)


def expected(numbers: range) -> list[str | None]:
    return sorted((None if number % 11 == 0 else f"v{number}" for number in numbers), key=str)


def test_batch_read_with_headers_null_keys_and_values(spark: Any, broker: Broker, filled: str) -> None:
    rows = reader(spark, broker, filled, includeHeaders="true").orderBy("timestamp").collect()
    assert len(rows) == RECORDS
    for number, row in enumerate(rows):
        assert (row.partition, row.offset, row.topic) == (number % PARTITIONS, number // PARTITIONS, filled)
        assert row.key == (None if number % 7 == 0 else f"k{number % 10}".encode())
        assert row.value == (None if number % 11 == 0 else f"v{number}".encode())
        assert [(h.key, h.value) for h in row.headers] == [("number", str(number).encode()), ("empty", None)]
        assert int(row.timestamp.timestamp() * 1000) == FIRST_MS + number * 1000
        assert row.timestampType == 0


def test_starting_timestamp_begins_at_the_first_record_not_before_it(spark: Any, broker: Broker, filled: str) -> None:
    start = FIRST_MS + 200 * 1000 - 500
    assert values(reader(spark, broker, filled, startingTimestamp=start)) == expected(range(200, RECORDS))


def test_starting_and_ending_offsets_by_partition(spark: Any, broker: Broker, filled: str) -> None:
    frame = reader(
        spark,
        broker,
        filled,
        startingOffsets=f'{{"{filled}":{{"0":10,"1":-2,"2":7}}}}',
        endingOffsets=f'{{"{filled}":{{"0":20,"1":5,"2":7}}}}',
    )
    got = sorted((row.partition, row.offset) for row in frame.collect())
    assert got == [(0, offset) for offset in range(10, 20)] + [(1, offset) for offset in range(5)]


def test_min_partitions_divides_the_read_without_loss(spark: Any, broker: Broker, filled: str) -> None:
    frame = reader(spark, broker, filled, minPartitions=9)
    assert frame.rdd.getNumPartitions() == 9
    assert values(frame) == expected(range(RECORDS))


def test_batch_sink_writes_keys_values_and_headers(spark: Any, broker: Broker, filled: str, new_name: Names) -> None:
    target = new_name("sink")
    copied = reader(spark, broker, filled, includeHeaders="true").select("key", "value", "headers")
    copied.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", target).option(
        "includeHeaders", "true"
    ).save()

    def contents(topic: str) -> list[tuple[Any, ...]]:
        rows = reader(spark, broker, topic, includeHeaders="true").collect()
        return sorted(((row.headers[0].value, row.key, row.value) for row in rows), key=str)

    assert contents(target) == contents(filled)


def test_stream_with_bounded_batches_goes_on_from_its_checkpoint(
    spark: Any, broker: Broker, filled: str, new_name: Names, tmp_path: Path
) -> None:
    target = new_name("copy")

    def copy_available(batch_sizes: list[int]) -> None:
        frame = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", filled)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 120)
            .load()
        )
        query = (
            frame.select("key", "value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        batch_sizes += [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    sizes: list[int] = []
    copy_available(sizes)
    assert sum(sizes) == RECORDS
    assert max(sizes) <= 120
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(50):
        producer.produce(filled, value=f"late{number}".encode())
    assert producer.flush(30) == 0
    more: list[int] = []
    copy_available(more)
    assert sum(more) == 50, "only what came after the checkpoint"
    assert values(reader(spark, broker, target)) == values(reader(spark, broker, filled))


def test_subscribe_pattern_sees_every_matching_topic(spark: Any, broker: Broker, filled: str) -> None:
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribePattern", f"{filled}.*")
        .load()
    )
    assert values(frame) == expected(range(RECORDS))
