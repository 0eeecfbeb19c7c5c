"""Arrow batches with the columns of Spark's Kafka source: Kafka's fields under the names that Spark's users know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.decoding import Batch, Body, Fields, decode, read
from kwire.arrow.errors import ReadError
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


class Rows:
    """Collects record batches of a partition and makes an Arrow batch of many, which is what makes it fast."""

    def __init__(self, topic: str, partition: int, *, headers: bool, keys: bool = True, values: bool = True) -> None:
        self._place = topic, partition
        self._headers, self._keys, self._values = headers, keys, values
        self._bodies: list[Body] = []
        self._count = self._size = 0

    def add(self, batch: Batch) -> None:
        """Take a batch, which is copied. `CorruptBatch` if it does not have the records that it says."""
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
        self._count = self._size = 0
        fields = decode(bodies) if bodies else None
        if fields is None or not len(fields.offsets):
            return None
        return to_arrow(fields, *self._place, headers=self._headers, keys=self._keys, values=self._values)


def to_arrow(
    fields: Fields, topic: str, partition: int, *, headers: bool, keys: bool = True, values: bool = True
) -> pa.RecordBatch:
    """A row for each record of a partition; without ``keys`` or ``values`` these are null. `CorruptBatch` for headers
    that are none; `ReadError` for a timestamp that is too large."""
    import pyarrow as pa

    rows = len(fields.offsets)
    columns: list[Any] = [
        *_contents(fields, keys=keys, values=values),
        pa.repeat(pa.scalar(topic, pa.string()), rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        pa.array(fields.offsets),
        pa.array(_microseconds(fields, topic, partition)).cast(pa.timestamp("us", tz="UTC")),
        pa.array(fields.kinds),
    ]
    if headers:
        columns.append(_headers(fields))
    return pa.RecordBatch.from_arrays(columns, [*NAMES, *([HEADERS] if headers else [])])


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
