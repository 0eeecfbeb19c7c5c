"""Columns of records as Arrow batches, with the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.cli.records.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
HEADERS: Final = ", headers array<struct<key: string, value: binary>>"


def to_arrow(parts: Sequence[Columns], types: Mapping[int, int], *, headers: bool) -> pa.RecordBatch:
    """Rows of Spark's Kafka source; ``parts`` are of one partition and not empty. ``types``: by the next offset of a
    part, the type of its timestamps."""
    import pyarrow as pa

    rows = sum(map(len, parts))
    times = [time_ms * 1000 for each in parts for time_ms in each.timestamps]
    kinds = [kind for each in parts for kind in [types[each.next_offset]] * len(each)]
    columns: list[Any] = [
        pa.array([key for each in parts for key in each.keys], pa.binary()),
        pa.array([value for each in parts for value in each.values], pa.binary()),
        pa.repeat(pa.scalar(parts[0].topic, pa.string()), rows),
        pa.repeat(pa.scalar(parts[0].partition, pa.int32()), rows),
        pa.array([offset for each in parts for offset in each.offsets], pa.int64()),
        pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        pa.array(kinds, pa.int32()),
    ]
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    if headers:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        found = [each.headers.get(index) for each in parts for index in range(len(each))]
        columns.append(pa.array([[{"key": k, "value": v} for k, v in one] if one else None for one in found], kind))
        names.append("headers")
    return pa.RecordBatch.from_arrays(columns, names)
