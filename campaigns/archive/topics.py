"""The topic of the campaign: who writes it, and what a consumer and a table have of it."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

PARTITIONS: Final = 3
_BATCH: Final = 100
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Partition, offset, timestamp in milliseconds, key, value and headers."""


class Writer:
    """A thread that writes ``count`` records, idempotently, at a rate, while the broker is killed. A batch has at most
    ``batch_bytes``."""

    def __init__(
        self, bootstrap: str, topic: str, count: int, rate: float, seed: int, batch_bytes: int = 1_000_000
    ) -> None:
        self._arguments = (bootstrap, topic, count, seed)
        self._batch_bytes = batch_bytes
        self._rate = rate
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Write the rest without a rate, and wait for the end."""
        self._rate = 0.0
        self._thread.join()

    def _run(self) -> None:
        bootstrap, topic, count, seed = self._arguments
        chance = random.Random(seed)
        settings: dict[str, Any] = {
            "batch.size": self._batch_bytes,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 600_000,
            "log_level": 0,
        }
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", **settings})
        for number in range(count):
            kind = chance.random()
            key = None if kind < 0.2 else b"key-%d" % chance.randrange(1000)
            value = (
                None if 0.2 <= kind < 0.25 else b'{"number": %d, "what": "%s"}' % (number, b"x" * chance.randrange(40))
            )
            headers: Any = [("number", b"%d" % number), ("empty", None)] if kind > 0.9 else None
            while True:
                try:
                    producer.produce(topic, value, key, chance.randrange(PARTITIONS), self._delivered, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % _BATCH == 0:
                producer.poll(0)
                if self._rate:
                    time.sleep(_BATCH / self._rate)
        if producer.flush(600):
            self.failures.append("records were not delivered")

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(str(error))


def transaction(bootstrap: str, topic: str, name: str, *, commits: bool) -> None:
    """Some records in a transaction that is committed or aborted; if the broker answers too late, either."""
    settings = {"transactional.id": name, "transaction.timeout.ms": 5000, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    try:
        producer.init_transactions(5)
        producer.begin_transaction()
        for number in range(60):
            producer.produce(topic, b"in transaction %s" % name.encode(), b"%d" % number, number % PARTITIONS)
        producer.flush(5)
        if commits:
            producer.commit_transaction(5)
        else:
            producer.abort_transaction(5)
    except KafkaException:  # ended now: an archiver that runs to the end would end before an open transaction
        Producer({"bootstrap.servers": bootstrap, **settings}).init_transactions(60)


def consumed(bootstrap: str, topic: str) -> list[Row]:
    """All committed records, by librdkafka."""
    settings = {"group.id": "campaign", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    rows: list[Row] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(10_000, 1):
            partition = message.partition() or 0
            if message.error():
                ended.add(partition)
                continue
            own: Any = message.headers() or ()
            what = (message.key(), message.value(), tuple((name, value) for name, value in own))
            rows.append((partition, message.offset() or 0, message.timestamp()[1], *what))
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def rows_of_table(kind: str, path: Path, topic: str) -> list[Row]:
    """All rows, by the format's own reader."""
    table: Any
    if kind == "parquet":
        import pyarrow.dataset as ds

        table = ds.dataset(str(path), format="parquet").to_table()
    elif kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(path)).to_pyarrow_dataset().to_table()
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("default", uri=f"sqlite:///{path}/catalog.db")
        table = catalog.load_table(("kwire", topic)).scan().to_arrow()
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    rows: list[Row] = []
    for batch in table.to_batches():
        times = batch.column("timestamp").cast("int64").to_pylist()
        headers = batch.column("headers").to_pylist()
        columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
        for partition, offset, key, value, time_us, own in zip(*columns, times, headers, strict=True):
            found = tuple((each["key"], each["value"]) for each in own or ())
            rows.append((partition, offset, time_us // 1000, key, value, found))
    return rows


_COMMITS: Final = {"parquet": "*.parquet", "delta": "_delta_log/*.json", "iceberg": "metadata/*.metadata.json"}


def commits_of_table(kind: str, path: Path) -> int:
    """How often a table in a folder was written to, by its files."""
    return sum(1 for _ in path.glob(_COMMITS[kind]))


def files_of_table(path: Path) -> int:
    """How many files there are in a table's folder, also such as are not part of it yet."""
    return sum(1 for _ in path.rglob("*"))


def digest(rows: Iterable[Row], *, offsets: bool) -> str:
    """A digest of rows in order, with or without their offsets."""
    total = hashlib.sha256()
    for partition, offset, *rest in rows:
        total.update(repr((partition, offset if offsets else None, *rest)).encode())
    return total.hexdigest()
