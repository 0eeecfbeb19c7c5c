"""Rows into a Parquet file, or as records of a topic."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.reading import Brokers
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.records.writing.encoding import Rows as Records
from kwire.cli.records.writing.gathering import Gathering
from kwire.cli.records.writing.parsing import Batch
from kwire.cli.records.writing.partitioner import Partitioner
from kwire.cli.records.writing.sending import Sender, Settings
from kwire.sql.errors import SqlError
from kwire.sql.results.running import Rows
from kwire.sql.results.texts import Texts, unique
from kwire.sql.session import Session

if TYPE_CHECKING:
    import pyarrow as pa

_ACKS_ALL: Final = -1
_MILLISECONDS: Final = 1000


def to_parquet(rows: Rows, path: str) -> int:
    """Write the rows to a Parquet file, under another name until it is whole; how many. OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [each.name for each in unique(rows.columns)]
    schema = pa.schema([field.with_name(name) for name, field in zip(names, rows.schema, strict=True)])
    unfinished = f"{path}.{os.getpid()}.tmp"
    count = 0
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for batch in rows.batches():
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                count += batch.num_rows
        os.replace(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    return count


class _Encoder:
    """Makes records of rows: of the columns ``key``, ``value``, ``headers``, ``partition`` and ``timestamp`` if there
    is a ``value``; otherwise a row as a JSON object is the value."""

    def __init__(self, session: Session, rows: Rows) -> None:
        self._names = {each.name.lower(): index for index, each in enumerate(rows.columns)}
        self._texts = Texts(session.connection, unique(rows.columns), rows.zone)

    def batch(self, rows: pa.RecordBatch) -> Batch:
        """The records. `SqlError` for columns of other types than a record's."""
        if "value" not in self._names:
            return Batch(Records([text.encode() for text in self._texts.objects(rows)]))
        columns = {name: rows.column(index) for name, index in self._names.items()}
        try:
            return self._of_columns(columns, rows)
        except (TypeError, ValueError, KeyError) as error:
            raise SqlError(f"a row is no record: {error}") from None

    def _of_columns(self, columns: Mapping[str, Any], rows: pa.RecordBatch) -> Batch:
        cells = self._texts.cells(rows)
        keys = self._bytes("key", columns, cells) if "key" in columns else None
        headers = _headers(columns["headers"].to_pylist()) if "headers" in columns else None
        times = _times(columns["timestamp"]) if "timestamp" in columns else None
        values = self._bytes("value", columns, cells)
        return Batch(Records(values, keys, headers, times), _partitions(columns.get("partition")))

    def _bytes(
        self, name: str, columns: Mapping[str, Any], cells: Sequence[Sequence[str | None]]
    ) -> list[bytes | None]:
        """Bytes as they are, all else as its text."""
        import pyarrow as pa

        if pa.types.is_binary(columns[name].type):
            return columns[name].to_pylist()  # type: ignore[no-any-return]
        index = self._names[name]
        return [None if (text := row[index]) is None else text.encode() for row in cells]


def to_topic(session: Session, rows: Rows, brokers: Brokers, topic: str) -> int:
    """Write the rows to a topic, each once (idempotence); how many. `CommandError` says how many were, if not all."""

    async def write() -> int:
        cluster = Cluster.of(brokers.bootstrap, brokers.properties, brokers.timeout_s)
        try:
            await cluster.connect()
            return await _written(cluster, session, rows, Settings(topic, _ACKS_ALL, 0, brokers.timeout_s))
        finally:
            cluster.close()

    return asyncio.run(write())


async def _written(cluster: Cluster, session: Session, rows: Rows, settings: Settings) -> int:
    (described,) = (await cluster.metadata([settings.topic])).topics
    check(described.error_code, f"topic {settings.topic}")
    count = len(described.partitions)
    gathering = Gathering(Partitioner(count), None)
    sender = await Sender.open(cluster, settings, idempotent=True)
    encoder = _Encoder(session, rows)
    try:
        for batch in rows.batches():
            records = encoder.batch(batch)
            if any(each is not None and not 0 <= each < count for each in records.partitions or ()):
                raise SqlError(f"topic {settings.topic} has partitions 0 to {count - 1} only")
            gathering.add(records)
            await _send(sender, gathering)
        gathering.end()
        await _send(sender, gathering)
    except (CommandError, SqlError) as error:
        raise SqlError(f"{error}; {sender.written} records written to {settings.topic}") from None
    return sender.written


async def _send(sender: Sender, gathering: Gathering) -> None:
    """Send the batches that are full, one for each partition at a time."""
    while gathering.full:
        batches: dict[int, Records] = {}
        rest = []
        for partition, records in gathering.full:
            if partition in batches:
                rest.append((partition, records))
            else:
                batches[partition] = records
        gathering.full[:] = rest
        await sender.send(batches)


def _headers(column: Sequence[Sequence[Mapping[str, Any]] | None]) -> list[list[tuple[str, bytes | None]]]:
    return [[(each["key"], each["value"]) for each in headers or ()] for headers in column]


def _times(column: Any) -> list[int | None]:
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        raise TypeError(f"timestamp is {column.type}")
    microseconds = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return [None if each is None else each // _MILLISECONDS for each in microseconds]


def _partitions(column: Any) -> list[int | None] | None:
    import pyarrow as pa

    if column is None:
        return None
    if not pa.types.is_integer(column.type):
        raise TypeError(f"partition is {column.type}")
    found: list[int | None] = column.to_pylist()
    return None if all(each is None for each in found) else found
