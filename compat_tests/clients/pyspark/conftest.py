"""Fixtures of the PySpark tests: one Spark session for each test process, a filled topic, frames in a line or two."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.processes.brokers import Broker

PARTITIONS = 3
RECORDS = 300
FIRST_MS = int(time.time()) * 1000 - 3_600_000  # within the retention time

# Short queries: what is compiled for long ones costs more than it brings.
_QUICK = {
    "spark_driver_memory": "512m",
    "spark_driver_extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark_sql_codegen_wholeStage": "false",
    "spark_sql_adaptive_enabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The Spark session that all tests of a process share."""
    from examples.spark_orders.pipeline import spark_session

    with contextlib.chdir(tmp_path_factory.mktemp("spark")):  # Spark leaves folders where it starts
        session = spark_session("kwire compat tests", **_QUICK)
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


class Frames:
    """Spark's Kafka source and sink on one broker."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self.bootstrap = bootstrap
        self._folder = folder

    def read(self, topic: str = "", **options: Any) -> Any:
        """A batch frame of a topic, or of what the options name."""
        return self._source(self._spark.read, topic, options)

    def read_stream(self, topic: str = "", **options: Any) -> Any:
        """A streaming frame of a topic, or of what the options name, from its beginning."""
        return self._source(self._spark.readStream, topic, {"startingOffsets": "earliest", **options})

    def write(self, frame: Any, topic: str, **options: Any) -> None:
        """Write a batch frame to a topic."""
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap).option("topic", topic)
        writer.options(**options).save()

    def write_stream(self, frame: Any, checkpoint: str, topic: str | None = None) -> Any:
        """The writer of a streaming frame: to a topic, or to Parquet beside the checkpoint."""
        folder = str(self._folder / checkpoint)
        writer = frame.writeStream.option("checkpointLocation", folder)
        if topic is None:
            return writer.format("parquet").option("path", f"{folder}.parquet")
        return writer.format("kafka").option("kafka.bootstrap.servers", self.bootstrap).option("topic", topic)

    def run_available(self, frame: Any, checkpoint: str, topic: str | None = None) -> list[int]:
        """Run a stream with Trigger.AvailableNow to its end: the sizes of its batches that were not empty."""
        query = self.write_stream(frame, checkpoint, topic).trigger(availableNow=True).start()
        assert query.awaitTermination(120), query.status
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def parquet(self, checkpoint: str) -> list[str | None]:
        """The values in what a stream wrote as Parquet."""
        return values(self._spark.read.parquet(str(self._folder / f"{checkpoint}.parquet")))

    def _source(self, reader: Any, topic: str, options: dict[str, Any]) -> Any:
        named = {"subscribe": topic} if topic else {}
        return reader.format("kafka").options(**{"kafka.bootstrap.servers": self.bootstrap}, **named, **options).load()


@pytest.fixture
def frames(spark: Any, broker: Broker, tmp_path: Path) -> Frames:
    """`Frames` on the broker under test."""
    return Frames(spark, broker.bootstrap, tmp_path)


def values(frame: Any) -> list[str | None]:
    """The record values of a frame as text, sorted."""
    return sorted((row.value and bytes(row.value).decode() for row in frame.select("value").collect()), key=str)


def expected(numbers: range) -> list[str | None]:
    """The values that `filled` has for some numbers, sorted."""
    return sorted((None if number % 11 == 0 else f"v{number}" for number in numbers), key=str)


def produce(broker: Broker, topic: str, texts: list[str], partition: int = -1) -> None:
    """Write values without keys, into one partition or any."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for text in texts:
        producer.produce(topic, value=text.encode(), partition=partition)
    assert producer.flush(30) == 0


def produce_in_transactions(broker: Broker, topic: str, transactional_id: str) -> list[str]:
    """Ten transactions of ten records, every third aborted; the committed values, sorted."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    committed = []
    for transaction in range(10):
        producer.begin_transaction()
        texts = [f"t{transaction}-{number}" for number in range(10)]
        for number, text in enumerate(texts):
            producer.produce(topic, value=text.encode(), partition=number % PARTITIONS)
        producer.flush(30)
        if transaction % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += texts
    return sorted(committed)
