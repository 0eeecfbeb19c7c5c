"""The columns of a table, and the rows that Arrow batches of a topic become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: Final = ("CreateTime", "LogAppendTime")
"""Kafka's types of timestamps."""
NO_TIMESTAMP_US: Final = -1000
"""What a record without a timestamp (-1 ms) has in microseconds; in a table it is NULL."""


def table_schema() -> pa.Schema:
    """Partition, offset, timestamp, its type, key, value and headers, in this order."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestamp_type", pa.string()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )


def to_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch with the columns of `kwire.arrow.rows`, headers included."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times: Any = batch.column("timestamp")
    numbers = times.cast(pa.int64())
    nothing = pa.scalar(None, times.type)
    times = pc.if_else(pc.equal(numbers, NO_TIMESTAMP_US), nothing, times)
    kinds = pa.DictionaryArray.from_arrays(batch.column("timestampType"), pa.array(TYPES)).cast(pa.string())
    names = ("partition", "offset")
    columns = [*(batch.column(name) for name in names), times, kinds]
    columns += [batch.column(name) for name in ("key", "value", "headers")]
    return pa.RecordBatch.from_arrays(columns, schema=table_schema())
