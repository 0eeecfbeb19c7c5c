"""Arrow batches with the columns of Spark's Kafka source: Kafka's fields under the names that Spark's users know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.decoding import Batch, Body, Fields, decode, read
from kwire.arrow.errors import ReadError
from kwire.arrow.reading import ENDLESS_US, Reading
from kwire.codec.records.reader import read_headers

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.arrow.decoding import Numbers

NAMES: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
_ROWS_MAX: Final = 32_768
_BYTES_MAX: Final = 8 * 1024 * 1024
_MICROSECONDS: Final = 1000
_LATEST_MS: Final = (2**63 - 1) // _MICROSECONDS
_EARLIEST_MS: Final = -9_223_372_022_400_000
"""The first moment of DuckDB, in 290309 BC."""


class Rows:
    """Collects record batches of a partition and makes an Arrow batch of many, which is what makes it fast."""

    def __init__(self, topic: str, partition: int, how: Reading) -> None:
        self._place = topic, partition
        self._how = how
        self._bodies: list[Body] = []
        self._offsets: list[Numbers] = []
        self._count = self._size = 0

    def add(self, batch: Batch) -> None:
        """Take a batch, which is copied. `CorruptBatch` if it does not have the records that it says."""
        if self._how.only_offsets:
            found = _offsets(batch)
            self._offsets.append(found)
            self._count += len(found)
            return
        body = read(batch)
        if len(body.sizes):
            self._bodies.append(body)
            self._count += len(body.sizes)
            self._size += len(body.data)

    @property
    def is_enough(self) -> bool:
        """Whether it is time to `take` them."""
        return self._count >= _ROWS_MAX or self._size >= _BYTES_MAX

    def take(self) -> pa.RecordBatch | None:
        """The rows of all that came since the last time; None if there are none. `CorruptBatch`."""
        bodies, self._bodies = self._bodies, []
        offsets, self._offsets = self._offsets, []
        count, self._count, self._size = self._count, 0, 0
        if not count:
            return None
        if offsets:
            return _without_contents(offsets, *self._place)
        fields = decode(bodies)
        return to_arrow(fields, *self._place, self._how) if len(fields.offsets) else None


def _offsets(batch: Batch) -> Numbers:
    """The offsets of the records that are wanted. Where none is missing, the batch's header has them all, and its
    records need not be decompressed."""
    import numpy as np

    header = batch.header
    if header.count == header.next_offset - header.base_offset:
        return np.arange(max(batch.first, header.base_offset), min(batch.end, header.next_offset), dtype=np.int64)
    body = read(batch)
    return decode([body]).offsets if len(body.sizes) else np.empty(0, np.int64)


def _without_contents(offsets: list[Numbers], topic: str, partition: int) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    found = np.concatenate(offsets)
    rows = len(found)
    nothing = pa.nulls(rows, pa.binary())
    columns = [
        nothing,
        nothing,
        *_of_place(topic, partition, rows),
        pa.array(found),
        pa.nulls(rows, _time_type()),
        pa.nulls(rows, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, NAMES)


def to_arrow(fields: Fields, topic: str, partition: int, how: Reading) -> pa.RecordBatch:
    """A row for each record of a partition; columns that are not wanted are null. `CorruptBatch` for headers that are
    none; `ReadError` for a timestamp that is too large."""
    import pyarrow as pa

    rows = len(fields.offsets)
    columns: list[Any] = [
        *_contents(fields, keys=how.keys, values=how.values),
        *_of_place(topic, partition, rows),
        pa.array(fields.offsets),
        pa.array(_endless(fields) if how.endless else _microseconds(fields, topic, partition)).cast(_time_type()),
        pa.array(fields.kinds),
    ]
    if how.headers:
        columns.append(_headers(fields))
    return pa.RecordBatch.from_arrays(columns, [*NAMES, *([HEADERS] if how.headers else [])])


def _of_place(topic: str, partition: int, rows: int) -> tuple[Any, Any]:
    """The columns of the topic and the partition."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(topic, pa.string()), rows), pa.repeat(pa.scalar(partition, pa.int32()), rows)


def _time_type() -> Any:
    import pyarrow as pa

    return pa.timestamp("us", tz="UTC")


def _microseconds(fields: Fields, topic: str, partition: int) -> Numbers:
    """The timestamps. Producers that take nanoseconds for milliseconds write some that microseconds cannot hold."""
    import numpy as np

    times = fields.timestamps
    if times.max(initial=0) > _LATEST_MS or times.min(initial=0) < -_LATEST_MS:
        index = int(np.argmax(np.abs(times)))
        raise ReadError(
            f"{topic}-{partition}: the record at offset {fields.offsets[index]} has the timestamp {times[index]}, which"
            " is no number of milliseconds since 1970"
        )
    return times * _MICROSECONDS


def _endless(fields: Fields) -> Numbers:
    """The timestamps; those beyond the years that DuckDB knows are infinite."""
    import numpy as np

    times = fields.timestamps
    found: Numbers = np.clip(times, _EARLIEST_MS, _LATEST_MS) * _MICROSECONDS
    if times.max(initial=0) > _LATEST_MS or times.min(initial=0) < _EARLIEST_MS:
        found[times > _LATEST_MS], found[times < _EARLIEST_MS] = ENDLESS_US, -ENDLESS_US
    return found


def _contents(fields: Fields, *, keys: bool, values: bool) -> tuple[Any, Any]:
    """Keys and values. The whole buffer is seen as an Arrow array, whose elements are in turn what lies before a key,
    the key, what lies between, and the value; so Arrow copies every fourth of them without Python's help."""
    import numpy as np
    import pyarrow as pa

    rows = len(fields.offsets)
    bounds = np.zeros(4 * rows + 2, np.int32)
    bounds[1:-1:4] = fields.key_starts
    bounds[2:-1:4] = fields.key_ends
    bounds[3:-1:4] = fields.value_starts
    bounds[4:-1:4] = fields.value_ends
    bounds[-1] = bounds[-2]
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(fields.data)]
    whole = pa.Array.from_buffers(pa.binary(), 4 * rows + 1, buffers)
    indexes = np.arange(0, 4 * rows, 4, dtype=np.int32)
    nothing = pa.nulls(rows, pa.binary())
    return (
        _taken(whole, indexes + 1, fields.key_missing) if keys else nothing,
        _taken(whole, indexes + 3, fields.value_missing) if values else nothing,
    )


def _taken(whole: Any, indexes: Numbers, missing: Numbers) -> Any:
    import pyarrow as pa

    if missing.all():
        return pa.nulls(len(indexes), pa.binary())
    return whole.take(pa.array(indexes, mask=missing if missing.any() else None))


def _headers(fields: Fields) -> Any:
    """A list of headers for each record that has some."""
    import pyarrow as pa

    found: list[list[dict[str, Any]] | None] = [None] * len(fields.offsets)
    for index in fields.headers.nonzero()[0].tolist():
        count, start, stop = (int(each[index]) for each in (fields.headers, fields.after, fields.stops))
        found[index] = [
            {"key": _text(name), "value": content} for name, content in read_headers(fields.data, start, stop, count)
        ]
    return pa.array(found, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


def _text(name: str) -> str:
    """A name of which bytes that are no UTF-8 are replaced, as Java does."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
