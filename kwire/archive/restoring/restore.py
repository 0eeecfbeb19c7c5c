"""From a table into a topic: order, keys, headers, timestamps and partitions as they were; offsets are new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kwire.archive.errors import ArchiveError
from kwire.archive.restoring import reading
from kwire.archive.restoring.tables import Table
from kwire.archive.restoring.target import Options, TargetTopic
from kwire.cli.records.writing.encoding import Rows

if TYPE_CHECKING:
    from kwire.cli.connection.cluster import Cluster

_ROWS_MAX: Final = 50_000
_BYTES_MAX: Final = 16 * 1024 * 1024
"""A transaction has at most so many records or about so many bytes."""


class Restored(NamedTuple):
    """``records``: all in the topic; ``resumed``: whether an earlier run has written some of them."""

    topic: str
    partitions: int
    records: int
    resumed: bool


async def restore(cluster: Cluster, table: Table, options: Options) -> Restored:
    """Write all rows of a table to a topic. After a failure or a kill, the same again goes on there. `ArchiveError`,
    `CommandError`."""
    pieces = reading.index(table.files)
    partitions = max(table.identity.partitions, *(each + 1 for each in pieces), 1)
    target = TargetTopic(cluster, options, table.identity, partitions)
    cluster.extend()
    done = await target.open()
    for partition, own in pieces.items():
        for part in _parts(reading.rows(partition, own, done.get(partition, 0))):
            cluster.extend()
            await target.write(partition, to_records(part), part.column("offset")[-1].as_py() + 1)
    counts = await target.count()
    for partition, number in counts.items():
        expected = sum(each.records for each in pieces.get(partition, ()))
        if number != expected:
            raise ArchiveError(
                f"{options.topic}-{partition} has {number} records, and the archive has {expected}: somebody else has"
                " written to the topic, or it has deleted records (its retention.ms)"
            )
    await target.close()
    return Restored(options.topic, partitions, sum(counts.values()), any(done.values()))


def _parts(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows in parts for transactions."""
    for table in tables:
        step = max(1, min(_ROWS_MAX, _BYTES_MAX * table.num_rows // max(table.nbytes, 1)))
        for at in range(0, table.num_rows, step):
            yield table.slice(at, step)


def to_records(table: pa.Table) -> Rows:
    """The records that rows are."""
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    headers = [
        [(header["key"], header["value"]) for header in each or ()] for each in table.column("headers").to_pylist()
    ]
    return Rows(
        table.column("value").to_pylist(),
        table.column("key").to_pylist(),
        headers if any(headers) else None,
        [-1 if each is None else each // 1000 for each in times],
    )
