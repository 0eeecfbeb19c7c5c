"""Records of many batches, decoded without an object for each.

The records of the batches are joined to one buffer, in which each begins where the one before it ends. Only their sizes
are found one by one (`sizes`); all other fields are decoded for all records at once, with numpy. Keys and values stay
in the buffer: `Fields` says where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.arrow.sizes import sizes
from kwire.cli.records.columns import DECOMPRESSED_BYTES_MAX
from kwire.codec.records import LOG_APPEND_TIME, BatchHeader, Buffer, InvalidRecords
from kwire.codec.records.reader import read_body

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, Any]

_BEYOND: Final = bytes(1)
"""After the last record, so that every position up to its end can be looked at."""
_INT_BYTES_MAX: Final = 5
_LONG_BYTES_MAX: Final = 10


class Batch(NamedTuple):
    """A record batch of a partition; of its records those from offset ``first`` to before ``end`` are wanted."""

    data: Buffer
    header: BatchHeader
    first: int
    end: int


class Body(NamedTuple):
    """The decompressed records of a batch, and the size of each."""

    batch: Batch
    data: bytes
    sizes: Any


class Fields(NamedTuple):
    """An array for each field. Keys and values lie in ``data`` from their starts to their ends; ``missing``: there is
    none. ``kinds``: types of timestamps. ``headers``: their number; they lie from ``after`` to before ``stops``."""

    data: bytes
    offsets: Numbers
    timestamps: Numbers
    kinds: Numbers
    key_starts: Numbers
    key_ends: Numbers
    key_missing: Numbers
    value_starts: Numbers
    value_ends: Numbers
    value_missing: Numbers
    headers: Numbers
    after: Numbers
    stops: Numbers

    def only(self, chosen: Numbers) -> Fields:
        """Some of the records."""
        return Fields(self.data, *(each[chosen] for each in self[1:]))


def read(batch: Batch) -> Body:
    """Decompress a batch and divide it into records. `CorruptBatch`."""
    body = read_body(batch.data, batch.header, max_bytes=DECOMPRESSED_BYTES_MAX)
    return Body(batch, body, sizes(body, max(0, batch.header.count)))


def decode(bodies: Sequence[Body]) -> Fields:
    """The fields of the records that are wanted. `CorruptBatch`."""
    import numpy as np

    joined = b"".join([*(each.data for each in bodies), _BEYOND])
    data = np.frombuffer(joined, np.uint8)
    lengths = np.concatenate([np.frombuffer(each.sizes, np.int32) for each in bodies])
    stops = np.cumsum(lengths, dtype=np.int64)
    own, at = _varints(data, stops - lengths, stops)
    if (own & 1).any():
        raise InvalidRecords("a record with a negative length")
    times, at = _varints(data, at + 1, stops, _LONG_BYTES_MAX)
    deltas, at = _varints(data, at, stops)
    key = _bytes(data, at, stops)
    value = _bytes(data, key[1], stops)
    headers, after = _varints(data, value[1], stops)
    if ((headers == 0) & (after != stops)).any() or (headers & 1).any():
        raise InvalidRecords("a record whose fields do not end where its length says")
    offsets, timestamps, kinds = _absolute(bodies, _signed(deltas), _signed(times))
    fields = Fields(joined, offsets, timestamps, kinds, *key, *value, _signed(headers), after, stops)
    return _wanted(fields, [each.batch for each in bodies], [len(each.sizes) for each in bodies])


def _absolute(bodies: Sequence[Body], deltas: Numbers, times: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Offsets, timestamps and their types, of what each record has relative to its batch."""
    import numpy as np

    counts = [len(each.sizes) for each in bodies]
    headers = [each.batch.header for each in bodies]
    appended = [each.timestamp_type == LOG_APPEND_TIME for each in headers]
    kinds = np.repeat(np.array(appended, np.int32), counts)
    offsets = np.repeat(np.array([each.base_offset for each in headers], np.int64), counts) + deltas
    bases = [
        each.max_timestamp if by_log else each.base_timestamp for each, by_log in zip(headers, appended, strict=True)
    ]
    timestamps = np.repeat(np.array(bases, np.int64), counts)
    timestamps += times if not any(appended) else times * (1 - kinds)
    return offsets, timestamps, kinds


def _wanted(fields: Fields, batches: Sequence[Batch], counts: Sequence[int]) -> Fields:
    """Without the records that lie before or after what is wanted of their batches."""
    import numpy as np

    if all(each.first <= each.header.base_offset and each.header.next_offset <= each.end for each in batches):
        return fields
    firsts = np.repeat(np.array([each.first for each in batches], np.int64), counts)
    ends = np.repeat(np.array([each.end for each in batches], np.int64), counts)
    return fields.only((fields.offsets >= firsts) & (fields.offsets < ends))


def _bytes(data: Numbers, at: Numbers, stops: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Where a field of bytes begins and ends in each record, and whether it is missing. `InvalidRecords`."""
    length, starts = _varints(data, at, stops)
    missing = (length & 1) == 1
    ends = starts + (length >> 1)
    if missing.any():
        ends[missing] = starts[missing]
    if (ends >= stops).any():
        raise InvalidRecords("a field that goes beyond the end of its record")
    return starts, ends, missing


def _signed(zigzag: Numbers) -> Numbers:
    signed: Numbers = (zigzag >> 1) ^ -(zigzag & 1)
    return signed


def _varints(data: Numbers, at: Numbers, stops: Numbers, bytes_max: int = _INT_BYTES_MAX) -> tuple[Numbers, Numbers]:
    """The varints at some positions, still in their zigzag form, and the positions after them. `InvalidRecords`."""
    import numpy as np

    values = data[at].astype(np.int64)
    after = at + 1
    more = np.flatnonzero(values > 127)
    if len(more):
        values &= 0x7F
        _lengthen(data, values, after, more, bytes_max)
    if (after > stops).any():
        raise InvalidRecords("a varint that goes beyond the end of its record")
    return values, after


def _lengthen(data: Numbers, values: Numbers, after: Numbers, more: Numbers, bytes_max: int) -> None:
    """Add the other bytes of the varints with the indexes ``more``."""
    import numpy as np

    for index in range(1, bytes_max):
        places = after[more]
        if places.max() >= len(data):
            break
        byte = data[places].astype(np.int64)
        values[more] |= (byte & 0x7F) << (7 * index)
        after[more] += 1
        more = more[byte > 127]
        if not len(more):
            return
    raise InvalidRecords(f"a varint of more than {bytes_max} bytes")
