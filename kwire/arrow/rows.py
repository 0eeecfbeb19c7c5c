"""Decoded records as Arrow batches, with the columns of Spark's Kafka source: Kafka's fields under the names that
Spark's users know."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kwire.cli.records.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

_MICROSECONDS: Final = 1000


def to_arrow(parts: Sequence[Columns], types: Mapping[int, int], *, headers: bool) -> pa.RecordBatch:
    """A row for each record; ``parts`` are of one partition and not empty. ``types``: by the next offset of a
    part, the type of its timestamps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = sum(map(len, parts))
    offsets, times = array("q"), array("q")
    for each in parts:
        offsets.extend(each.offsets)
        times.extend(each.timestamps)
    kinds = {types[each.next_offset] for each in parts}
    columns: list[Any] = [
        pa.array(list(chain.from_iterable(each.keys for each in parts)), pa.binary()),
        pa.array(list(chain.from_iterable(each.values for each in parts)), pa.binary()),
        pa.repeat(pa.scalar(parts[0].topic, pa.string()), rows),
        pa.repeat(pa.scalar(parts[0].partition, pa.int32()), rows),
        _numbers(offsets),
        pc.multiply(_numbers(times), _MICROSECONDS).cast(pa.timestamp("us", tz="UTC")),
        pa.repeat(pa.scalar(kinds.pop(), pa.int32()), rows) if len(kinds) == 1 else _kinds(parts, types),
    ]
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    if headers:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        found = [each.headers.get(index) for each in parts for index in range(len(each))]
        columns.append(pa.array([[{"key": k, "value": v} for k, v in one] if one else None for one in found], kind))
        names.append("headers")
    return pa.RecordBatch.from_arrays(columns, names)


def _numbers(values: array[int]) -> Any:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _kinds(parts: Sequence[Columns], types: Mapping[int, int]) -> Any:
    import pyarrow as pa

    return pa.array([kind for each in parts for kind in [types[each.next_offset]] * len(each)], pa.int32())
