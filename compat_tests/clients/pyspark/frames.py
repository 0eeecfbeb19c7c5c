"""What the PySpark tests read and write: `Frames` on a broker, their values, and records of Kafka producers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from examples.spark_orders.pipeline import started
from harness.processes.brokers import Broker

PARTITIONS = 3
RECORDS = 300
FIRST_MS = int(time.time()) * 1000 - 3_600_000  # within the retention time


class Frames:
    """A Kafka source and a sink on one broker: Spark's, or those of kwire, by their formats. ``client``: the properties
    of their Kafka clients."""

    def __init__(
        self,
        spark: Any,
        bootstrap: str,
        folder: Path,
        client: Mapping[str, str] | None = None,
        *,
        source: str = "kafka",
        sink: str = "kafka",
    ) -> None:
        self._spark = spark
        self.source = source
        self.sink = sink
        self.bootstrap = bootstrap
        self._folder = folder
        properties = {"bootstrap.servers": bootstrap, **(client or {})}
        self._client = {f"kafka.{name}": value for name, value in properties.items()}

    def texts(self, texts: list[str]) -> Any:
        """A batch frame with these record values, in one partition."""
        return self._spark.createDataFrame([(text.encode(),) for text in texts], "value binary").coalesce(1)

    def read(self, topic: str = "", **options: Any) -> Any:
        """A batch frame of a topic, or of the topics in the options."""
        return self._source(self._spark.read, topic, options)

    def read_stream(self, topic: str = "", **options: Any) -> Any:
        """A streaming frame of a topic, or of the topics in the options, from the earliest offset."""
        return self._source(self._spark.readStream, topic, {"startingOffsets": "earliest", **options})

    def write(self, frame: Any, topic: str, **options: Any) -> None:
        """Write a batch frame to a topic."""
        frame.write.format(self.sink).mode("append").options(**self._client, topic=topic, **options).save()

    def write_stream(self, frame: Any, checkpoint: str, topic: str | None = None) -> Any:
        """The writer of a streaming frame: to a topic, or to Parquet beside the checkpoint."""
        folder = str(self._folder / checkpoint)
        writer = frame.writeStream.option("checkpointLocation", folder)
        if topic is None:
            return writer.format("parquet").option("path", f"{folder}.parquet")
        return writer.format(self.sink).options(**self._client, topic=topic)

    def run_available(self, frame: Any, checkpoint: str, topic: str | None = None) -> list[int]:
        """Run a stream with Trigger.AvailableNow to its end: the sizes of its batches that were not empty."""
        query = started(self.write_stream(frame, checkpoint, topic).trigger(availableNow=True))
        assert query.awaitTermination(120), query.status
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def parquet(self, checkpoint: str) -> list[str | None]:
        """The values in the Parquet files that a stream wrote."""
        return values(self._spark.read.parquet(str(self._folder / f"{checkpoint}.parquet")))

    def _source(self, reader: Any, topic: str, options: dict[str, Any]) -> Any:
        named = {"subscribe": topic} if topic else {}
        return reader.format(self.source).options(**{**self._client, **named, **options}).load()


def values(frame: Any) -> list[str | None]:
    """The record values of a frame as text, sorted."""
    return sorted((row.value and bytes(row.value).decode() for row in frame.select("value").collect()), key=str)


def expected(numbers: range) -> list[str | None]:
    """The values of the topic `filled` for some numbers, sorted."""
    return sorted((None if number % 11 == 0 else f"v{number}" for number in numbers), key=str)


def forget_last_commit(checkpoint: Path) -> None:
    """What is left when the driver dies between the sink's commit and that of Spark."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def produce(broker: Broker, topic: str, texts: list[str], partition: int = -1) -> None:
    """Write values without keys to one partition, or to any."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for text in texts:
        producer.produce(topic, value=text.encode(), partition=partition)
    assert producer.flush(30) == 0


def produce_in_transactions(broker: Broker, topic: str, transactional_id: str) -> list[str]:
    """Run ten transactions of ten records and abort every third; returns the committed values, sorted."""
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
