"""From a query's columns to records: Spark's rules for the columns of its Kafka sink, and Arrow batches as `Rows`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from kwire.cli.records.writing.encoding import Rows
from kwire.cli.records.writing.parsing import Batch
from kwire.spark.sink.errors import SinkError

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: Final = {
    "topic": ("string",),
    "partition": ("int",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns that make a record, and their types as Spark names them. Others are left out, as in Spark's sink."""
_DIGEST_MASK: Final = 2**64 - 1
_KEY_FACTOR: Final = 0x9E3779B97F4A7C15


def check_columns(columns: Mapping[str, str], topic: str | None) -> None:
    """Check the columns (name -> Spark's type) of what is to be written. `SinkError` for what is missing or wrong."""
    if "value" not in columns:
        raise SinkError("column value is missing: select what becomes the record's value, as `value`")
    if topic is None and "topic" not in columns:
        raise SinkError("column topic is missing: set the option topic, or select the topic's name as `topic`")
    for name, types in TYPES.items():
        if name in columns and columns[name] not in types:
            raise SinkError(f"column {name} has type {columns[name]}: it must be {' or '.join(types)}")


def records(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, Batch]]:
    """The records of an Arrow batch by their topics. `SinkError` for a row without one."""
    columns = {name: batch.column(name) for name in TYPES if name in batch.schema.names}
    values, keys = _bytes(columns["value"]), _bytes(columns["key"]) if "key" in columns else None
    headers = _headers(columns["headers"].to_pylist()) if "headers" in columns else None
    partitions = columns["partition"].to_pylist() if "partition" in columns else None
    rows = Rows(values, keys, headers)
    if partitions is not None and all(each is None for each in partitions):
        partitions = None
    if topic is not None:
        yield topic, Batch(rows, partitions)
        return
    indexes: dict[str, list[int]] = {}
    for index, name in enumerate(columns["topic"].to_pylist()):
        if name is None:
            raise SinkError("a row has a null topic: set the option topic, or give each row one")
        indexes.setdefault(name, []).append(index)
    for name, chosen in indexes.items():
        own = partitions and [partitions[index] for index in chosen]
        yield name, Batch(rows.take(chosen), own or None)


def digest(rows: Rows) -> int:
    """A number of 64 bits that does not depend on the order of rows; digests of parts add up, modulo 2**64."""
    found = sum(map(crc32, [each or b"" for each in rows.values]))
    if rows.keys is not None:
        found += _KEY_FACTOR * sum(map(crc32, [each for each in rows.keys if each is not None]))
    return found & _DIGEST_MASK


def added(first: int, second: int) -> int:
    """The digest of two parts."""
    return (first + second) & _DIGEST_MASK


def _bytes(column: Any) -> list[bytes | None]:
    import pyarrow as pa

    if not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    found: list[bytes | None] = column.to_pylist()
    return found


def _headers(column: Sequence[Sequence[Mapping[str, Any]] | None]) -> list[list[tuple[str, bytes | None]]]:
    return [[(each["key"], each["value"]) for each in headers or ()] for headers in column]
