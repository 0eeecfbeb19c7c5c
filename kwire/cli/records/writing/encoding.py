"""Encoding the records of a batch, a column at a time.

The bytes before a value follow from its length, so they come from tables, and one join makes the batch. Records with
headers, nulls or timestamps of their own are encoded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import add
from typing import Final, NamedTuple

from kwire.codec.compression import compress
from kwire.codec.crc import crc32c
from kwire.codec.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    RecordHeader,
)
from kwire.codec.records.builder import encode_record
from kwire.codec.records.header import CRC_START, pack_header
from kwire.codec.records.varint import encode_varint

RECORDS_MAX: Final = 10_000
"""Records in one batch."""
_NO_HEADERS: Final = b"\0"
_LONG: Final = 1 << 16
"""Lengths from here on are not kept in tables."""


class Producer(NamedTuple):
    """What a batch has of its producer (KIP-98); without idempotence nothing."""

    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE


NO_PRODUCER: Final = Producer()


class Rows(NamedTuple):
    """Records to encode. ``keys``, ``headers`` and ``timestamps`` (milliseconds) are None if no record has one."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Sequence[RecordHeader]] | None = None
    timestamps: Sequence[int | None] | None = None

    def between(self, first: int, end: int | None) -> Rows:
        """Some that follow each other."""
        return Rows(
            self.values[first:end],
            self.keys and self.keys[first:end],
            self.headers and self.headers[first:end],
            self.timestamps and self.timestamps[first:end],
        )

    def take(self, indexes: Sequence[int]) -> Rows:
        """Those at some indexes."""
        return Rows(
            [self.values[index] for index in indexes],
            self.keys and [self.keys[index] for index in indexes],
            self.headers and [self.headers[index] for index in indexes],
            self.timestamps and [self.timestamps[index] for index in indexes],
        )


def encode_batch(rows: Rows, now_ms: int, producer: Producer = NO_PRODUCER, compression: int = 0) -> bytes:
    """A batch of at most `RECORDS_MAX` records; those without a timestamp get ``now_ms``."""
    timestamps = [now_ms if each is None else each for each in rows.timestamps or ()]
    base = timestamps[0] if timestamps else now_ms
    body = _encoded(rows, [each - base for each in timestamps])
    if compression:
        body = compress(compression, body)
    count = len(rows.values)
    header = BatchHeader(
        base_offset=0,
        length=HEADER_SIZE - LOG_OVERHEAD + len(body),
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=compression,
        last_offset_delta=count - 1,
        base_timestamp=base,
        max_timestamp=max(timestamps, default=now_ms),
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        count=count,
    )
    head = pack_header(header)
    crc = crc32c(body, crc32c(head[CRC_START:]))  # in parts, so that the records are copied once
    return b"".join((pack_header(header._replace(crc=crc)), body))


def _encoded(rows: Rows, deltas: Sequence[int]) -> bytes:
    values, keys = rows.values, rows.keys
    if not any(rows.headers or ()) and not any(deltas) and None not in values:
        if keys is None or keys.count(None) == len(keys):
            return _values_encoded(values)  # type: ignore[arg-type]
        if None not in keys:
            return _pairs_encoded(keys, values)  # type: ignore[arg-type]
    return _one_by_one(rows, deltas)


def _one_by_one(rows: Rows, deltas: Sequence[int]) -> bytes:
    count = len(rows.values)
    keys = rows.keys or [None] * count
    headers: Sequence[Sequence[RecordHeader]] = rows.headers or [()] * count
    columns = zip(range(count), deltas or [0] * count, keys, rows.values, headers, strict=True)
    return b"".join(encode_record(*record) for record in columns)


class _Sizes(dict[int, bytes]):
    """Length of a field -> a varint of it, after ``before``."""

    def __init__(self, before: bytes) -> None:
        super().__init__()
        self._before = before

    def __missing__(self, size: int) -> bytes:
        found = self._before + encode_varint(size)
        if size < _LONG:
            self[size] = found
        return found


class _Spans(dict[int, int]):
    """Length of a field -> its length with the varint in front."""

    def __missing__(self, size: int) -> int:
        found = len(encode_varint(size)) + size
        if size < _LONG:
            self[size] = found
        return found


class _Heads(dict[int, bytes]):
    """Bytes of key and value -> the bytes of a record before its offset delta: its length, attributes and a timestamp
    delta of 0; in front of them what ends the record before, that it has no headers."""

    def __init__(self, rest: int) -> None:
        super().__init__()
        self._rest = rest

    def __missing__(self, size: int) -> bytes:
        found = _NO_HEADERS + encode_varint(size + self._rest) + b"\0\0"
        if size < _LONG:
            self[size] = found
        return found


_SPANS: Final = _Spans()
_KEY_SIZES: Final = _Sizes(b"")
_VALUE_SIZES: Final = _Sizes(b"")
_NULL_KEY: Final = encode_varint(-1)
_VALUE_SIZES_AFTER_NULL: Final = _Sizes(_NULL_KEY)
_HEADS: Final = {width: _Heads(2 + width + 1) for width in (1, 2, 3)}
_WIDTHS: Final = ((0, 64, 1), (64, 8192, 2), (8192, 1 << 20, 3))
"""Offset deltas from and to, and the bytes that their varints take."""


@cache
def _deltas() -> list[bytes]:
    return [encode_varint(delta) for delta in range(RECORDS_MAX)]


def _heads(spans: Sequence[int]) -> list[bytes]:
    """What stands before the offset delta of each record."""
    heads: list[bytes] = []
    for start, end, width in _WIDTHS:
        heads += map(_HEADS[width].__getitem__, spans[start:end])
    return heads


def _values_encoded(values: Sequence[bytes]) -> bytes:
    sizes = list(map(len, values))
    parts: list[bytes] = [b""] * (4 * len(values))
    parts[0::4] = _heads([1 + span for span in map(_SPANS.__getitem__, sizes)])
    parts[1::4] = _deltas()[: len(values)]
    parts[2::4] = map(_VALUE_SIZES_AFTER_NULL.__getitem__, sizes)
    parts[3::4] = values
    return _shifted(parts)


def _pairs_encoded(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    key_sizes, sizes = list(map(len, keys)), list(map(len, values))
    spans = list(map(add, map(_SPANS.__getitem__, key_sizes), map(_SPANS.__getitem__, sizes)))
    parts: list[bytes] = [b""] * (6 * len(values))
    parts[0::6] = _heads(spans)
    parts[1::6] = _deltas()[: len(values)]
    parts[2::6] = map(_KEY_SIZES.__getitem__, key_sizes)
    parts[3::6] = keys
    parts[4::6] = map(_VALUE_SIZES.__getitem__, sizes)
    parts[5::6] = values
    return _shifted(parts)


def _shifted(parts: list[bytes]) -> bytes:
    """The bytes of records; each head has the end of the record before, so the first one has a byte too many."""
    parts[0] = parts[0][1:]
    parts.append(_NO_HEADERS)
    return b"".join(parts)
