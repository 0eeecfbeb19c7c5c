"""A topic in memory, and tables of each format, for the tests of archives."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa

from kwire.archive.archiving import Archiver, Settings
from kwire.archive.errors import ArchiveError
from kwire.archive.identity import Identity
from kwire.archive.rows import table_schema
from kwire.archive.sources import Bounds
from kwire.archive.targets.target import Target
from kwire.arrow.ranges import Range

FORMATS = ("parquet", "delta", "iceberg")
DEFAULTS = Settings()
ORDERS = Identity("orders", "topic-id", "cluster-id", 2)


class Topic:
    """A `Source`: records are (partition, offset, key, value)."""

    def __init__(self, identity: Identity = ORDERS, *, lags: bool = False) -> None:
        self.lags = lags
        self.what = identity
        self.records: list[tuple[int, int, bytes | None, bytes | None]] = []
        self.limits = {number: Bounds(0, 0) for number in range(identity.partitions)}
        self.reads: list[Range] = []

    def add(self, partition: int, *offsets: int, end: int | None = None) -> None:
        """Records of these offsets; ``end``: with markers behind them."""
        self.records += [(partition, each, b"k%d" % each, b"v%d" % each) for each in offsets]
        first = self.limits.get(partition, Bounds(0, 0)).start
        self.limits[partition] = Bounds(first, end or offsets[-1] + 1)

    def identity(self) -> Identity:
        """What it is."""
        return self.what

    def bounds(self) -> dict[int, Bounds]:
        """What is there."""
        return dict(self.limits)

    def read(self, wanted: Range, *, strict: bool) -> Iterator[pa.RecordBatch]:
        """Batches of up to three records."""
        self.reads.append(wanted)
        if strict and wanted.start < self.limits[wanted.partition].start:
            raise ArchiveError("gone")
        found = [each for each in self.records if each[0] == wanted.partition and wanted.start <= each[1] < wanted.end]
        for at in range(0, len(found), 3):
            yield batch(found[at : at + 3])


def batch(records: Sequence[tuple[int, int, bytes | None, bytes | None]]) -> pa.RecordBatch:
    """The rows of records."""
    rows = [
        {
            "partition": partition,
            "offset": offset,
            "timestamp": 1_700_000_000_000_000 + offset * 1000,
            "timestamp_type": "CreateTime",
            "key": key,
            "value": value,
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}] if offset % 2 else None,
        }
        for partition, offset, key, value in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=table_schema())


def opened(kind: str, path: Path, identity: Identity = ORDERS) -> AbstractContextManager[Target]:
    """A table of a format."""
    if kind == "parquet":
        from kwire.archive.targets.parquet import ParquetTarget

        return ParquetTarget.opened(str(path), identity)
    if kind == "delta":
        from kwire.archive.targets.delta import DeltaTarget

        return DeltaTarget.opened(str(path), identity)
    from kwire.archive.targets.iceberg import IcebergTarget

    return IcebergTarget.opened(str(path), identity, None, None)


def archived(topic: Topic, kind: str, path: Path, settings: Settings = DEFAULTS, rounds: int = 1) -> Archiver:
    """Archive what a topic has, with a new opening of the table."""
    with opened(kind, path, topic.identity()) as target:
        archiver = Archiver(topic, target, topic.identity(), settings, threading.Event())
        for _ in range(rounds):
            archiver.round()
    return archiver


def content(kind: str, path: Path) -> list[tuple[Any, ...]]:
    """Partition, offset, key and value of all rows, sorted, as the formats' own readers have them."""
    if kind == "parquet":
        import pyarrow.dataset as ds

        table = ds.dataset(str(path), format="parquet").to_table()
    elif kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(path)).to_pyarrow_dataset().to_table()
    else:
        from kwire.archive.targets.iceberg import open_catalog, table_name

        table = open_catalog(str(path), None).load_table(table_name(None, "orders")).scan().to_arrow()
    columns = (table.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    return sorted(zip(*columns, strict=True))
