"""`Columns`: the records of one batch, a list for each field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, overload

from kwire.codec.records import LOG_APPEND_TIME, BatchHeader, Buffer, RecordHeader, iter_records
from kwire.codec.records.reader import read_body

DECOMPRESSED_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes that one batch may take when decompressed."""
_WIDTH_LIMITS: Final = (64, 8192, 1 << 20, 1 << 27, 1 << 31)
"""The first offset delta that takes more than one byte as a varint, more than two, and so on."""


class _Timestamps(Sequence[int]):
    """Timestamps as a batch has them: a base, and zigzag deltas to it. Most formats need none of them."""

    def __init__(self, base: int, deltas: Sequence[int]) -> None:
        self._base = base
        self._deltas = deltas

    def __len__(self) -> int:
        return len(self._deltas)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return _Timestamps(self._base, self._deltas[index])
        delta = self._deltas[index]
        return self._base + (delta >> 1 ^ -(delta & 1))

    def __iter__(self) -> Iterator[int]:
        base = self._base
        return iter([base + (delta >> 1 ^ -(delta & 1)) for delta in self._deltas])


@dataclass(slots=True)
class Columns:
    """Records of a partition, in order. ``timestamps``: milliseconds since the epoch. ``headers``: by the index of the
    record; a record without headers is not in it. ``next_offset``: the offset after the batch."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Mapping[int, Sequence[RecordHeader]]
    next_offset: int

    def __len__(self) -> int:
        """The number of records."""
        return len(self.values)

    def take(self, indexes: Sequence[int]) -> Columns:
        """Some of the records."""
        return Columns(
            self.topic,
            self.partition,
            [self.offsets[index] for index in indexes],
            [self.timestamps[index] for index in indexes],
            [self.keys[index] for index in indexes],
            [self.values[index] for index in indexes],
            {new: self.headers[old] for new, old in enumerate(indexes) if old in self.headers},
            self.next_offset,
        )

    def between(self, first: int, end: int | None) -> Columns:
        """The records from offset ``first`` to before ``end``: a fetched batch may begin before and end after them."""
        offsets = self.offsets
        if not offsets or (offsets[0] >= first and (end is None or offsets[-1] < end)):
            return self
        return self.take([i for i, offset in enumerate(offsets) if offset >= first and (end is None or offset < end)])


def decode_batch(topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
    """The records of a batch. `CorruptBatch` if there are none in these bytes."""
    body = read_body(batch, header, max_bytes=DECOMPRESSED_BYTES_MAX)
    found = None
    if header.count == header.last_offset_delta + 1:
        found = _plain_records(body, header.count)
    if found is None:
        return _any_records(topic, partition, batch, header)
    keys, values, deltas = found
    timestamps: Sequence[int]
    if header.timestamp_type == LOG_APPEND_TIME:
        timestamps = [header.max_timestamp] * header.count
    else:
        timestamps = _Timestamps(header.base_timestamp, deltas)
    offsets = range(header.base_offset, header.next_offset)
    return Columns(topic, partition, offsets, timestamps, keys, values, {}, header.next_offset)


def _any_records(topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
    """The records of a batch of any form: with headers, or with gaps between their offsets."""
    records = list(iter_records(batch, max_bytes=DECOMPRESSED_BYTES_MAX))
    return Columns(
        topic,
        partition,
        [record.offset for record in records],
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
        {index: record.headers for index, record in enumerate(records) if record.headers},
        header.next_offset,
    )


def _plain_records(body: bytes, count: int) -> tuple[list[bytes | None], list[bytes | None], list[int]] | None:
    """Keys, values and zigzag timestamp deltas of records that follow each other without gaps and have no headers; None
    if the bytes are anything else, which `iter_records` tells apart.

    Each step is one loop without calls over all records: varints of up to two bytes are decoded in place, and the
    offset delta is only stepped over, as its width follows from its value. Each record must end where its length says.
    """
    try:
        if _columns(body, 1) is None:  # most batches that are not plain have headers everywhere
            return None
        found = _columns(body, count)
    except IndexError:
        return None
    if found is None or found[0][-1] != len(body):
        return None
    return found[1:]


def _columns(body: bytes, count: int) -> tuple[list[int], list[bytes | None], list[bytes | None], list[int]] | None:
    """Where the first records end, with their keys, values and timestamp deltas; None if one is not plain."""
    ends, deltas, positions = _frames(body, count)
    keys = _keys(body, positions)
    values = None if keys is None else _values(body, positions, ends)
    return None if keys is None or values is None else (ends, keys, values, deltas)


def _frames(body: bytes, count: int) -> tuple[list[int], list[int], list[int]]:
    """Where each record ends, its timestamp delta, and where its key begins."""
    ends: list[int] = []
    deltas: list[int] = []
    positions: list[int] = []
    add_end, add_delta, add_position = ends.append, deltas.append, positions.append
    end = width = limit = 0
    for index in range(count):
        if index == limit:
            limit = _WIDTH_LIMITS[width]
            width += 1
        position = end
        size = body[position]
        if size < 128:
            position += 1
        else:
            high = body[position + 1]
            if high < 128:
                size += (high << 7) - 128
                position += 2
            else:
                size, position = _long_varint(body, position)
        end = position + (size >> 1)
        delta = body[position + 1]
        if delta < 128:
            position += 2 + width
        else:
            high = body[position + 2]
            if high < 128:
                delta += (high << 7) - 128
                position += 3 + width
            else:
                delta, position = _long_varint(body, position + 1)
                position += width
        add_end(end)
        add_delta(delta)
        add_position(position)
    return ends, deltas, positions


def _keys(body: bytes, positions: list[int]) -> list[bytes | None] | None:
    """The keys at these positions, which become those of the values; None if a key is long."""
    keys: list[bytes | None] = []
    add = keys.append
    for index, position in enumerate(positions):
        size = body[position]
        if size == 1:
            add(None)
            positions[index] = position + 1
        elif size < 128 and not size & 1:
            position += 1
            end = position + (size >> 1)
            add(body[position:end])
            positions[index] = end
        else:
            return None
    return keys


def _values(body: bytes, positions: list[int], ends: list[int]) -> list[bytes | None] | None:
    """The values at these positions; None if a record does not end behind its value and the number of its headers,
    which is 0."""
    values: list[bytes | None] = []
    add = values.append
    for position, end in zip(positions, ends, strict=True):
        last = end - 1
        size = body[position]
        if size < 128:
            position += 1
        else:
            high = body[position + 1]
            if high < 128:
                size += (high << 7) - 128
                position += 2
            else:
                size, position = _long_varint(body, position)
        if position + (size >> 1) != last or body[last]:
            return None  # headers, or damage
        if not size & 1:
            add(body[position:last])
        elif size == 1:
            add(None)
        else:
            return None
    return values


def _long_varint(body: bytes, position: int) -> tuple[int, int]:
    """The zigzag varint at a position, still in its unsigned form, and the position after it."""
    value = shift = 0
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise IndexError
