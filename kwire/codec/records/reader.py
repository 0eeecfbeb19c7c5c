"""The records inside a batch: decompressing and decoding them one by one.

Only what must look at records comes here (compaction, look-ups by time, coordinators loading their topics, deep
validation); the produce and fetch paths get by with the header. Any bytes at all give records or CorruptBatch, in time
linear in the decompressed size, which the caller bounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.codec.compression import decompress
from kwire.codec.errors import CorruptBatch
from kwire.codec.records.header import (
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    Buffer,
    InvalidRecords,
    parse_header,
)
from kwire.codec.records.varint import decode_varint, decode_varlong

RecordHeader = tuple[str, bytes | None]

# A record takes at least seven bytes: length, attributes, two deltas, two sizes and the number of headers.
_RECORD_SIZE_MIN = 7
# Two bytes can make a header, which takes a hundred in memory: more than this in one record is an attack, no record.
RECORD_HEADERS_MAX = 200_000


class Record:
    """One record. `offset` -1 means not yet given, `timestamp` (milliseconds) -1 none.

    Header names that are no UTF-8 keep their bytes as surrogate escapes, so that re-encoding does not alter them."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int = -1,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: list[RecordHeader] | None = None,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers: list[RecordHeader] = [] if headers is None else headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    __hash__ = None  # type: ignore[assignment]  # it can be changed, so it is no key

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


def iter_records(batch: Buffer, *, max_bytes: int) -> Iterator[Record]:
    """The records of the one batch that `batch` starts with, in order, with absolute offsets and timestamps.

    `max_bytes` bounds the decompressed size. Raises CorruptBatch (InvalidRecords where the batch decompresses but does
    not hold the records it declares), possibly after it has yielded the records before the damage. The CRC is the
    caller's to check. Control batches yield their records like others (`control` reads those)."""
    header = parse_header(batch)
    body = read_body(batch, header, max_bytes=max_bytes)
    if header.count < 0 or header.count * _RECORD_SIZE_MIN > len(body):
        raise InvalidRecords(f"{header.count} records cannot be in {len(body)} bytes")
    return _iter_body(body, header)


def read_body(batch: Buffer, header: BatchHeader, *, max_bytes: int) -> bytes:
    """The records section of the batch that `batch` starts with, decompressed to at most `max_bytes`."""
    size = header.size
    if size > len(batch):
        raise CorruptBatch(f"a batch of {size} bytes in a buffer of {len(batch)}")
    section = memoryview(batch)[HEADER_SIZE:size]
    if header.count == 0 and not section:
        return b""  # an empty batch that compaction keeps for its producer's sequence
    return decompress(header.compression, section, max_bytes)


def read_headers(body: bytes, position: int, end: int, count: int) -> list[RecordHeader]:
    """The ``count`` headers of a record that begin at a position and end where the record does. `InvalidRecords`."""
    headers: list[RecordHeader] = []
    try:
        position = _decode_headers(body, position, end, count, headers)
    except IndexError:
        raise InvalidRecords("a record goes beyond the end of its batch") from None
    if position != end:
        raise InvalidRecords(f"a record whose fields end {abs(end - position)} bytes off its length")
    return headers


def _iter_body(body: bytes, header: BatchHeader) -> Iterator[Record]:
    position = 0
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_FLAG else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    try:
        for _ in range(header.count):
            length, position = decode_varint(body, position)
            end = position + length
            if length < 0 or end > len(body):
                raise InvalidRecords(f"a record of {length} bytes where {len(body) - position} are left")
            record = _decode_record(body, position, end, base_offset, base_timestamp)
            if append_time is not None:
                record.timestamp = append_time
            position = end
            yield record
    except IndexError:
        raise InvalidRecords("a record goes beyond the end of its batch") from None
    if position != len(body):
        raise InvalidRecords(f"{len(body) - position} bytes remain after the last of {header.count} records")


def _decode_record(body: bytes, position: int, end: int, base_offset: int, base_timestamp: int) -> Record:
    # body[position] is the record's attributes, which have no meaning yet.
    timestamp_delta, position = decode_varlong(body, position + 1)
    offset_delta, position = decode_varint(body, position)
    key, position = _decode_bytes(body, position, end)
    value, position = _decode_bytes(body, position, end)
    count, position = decode_varint(body, position)
    headers: list[RecordHeader] = []
    if count:
        position = _decode_headers(body, position, end, count, headers)
    if position != end:
        raise InvalidRecords(f"a record whose fields end {abs(end - position)} bytes off its length")
    return Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, headers)


def _decode_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(body, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise InvalidRecords(f"a field of {size} bytes where {max(end - position, 0)} are left in the record")
    return body[position : position + size], position + size


def _decode_headers(body: bytes, position: int, end: int, count: int, headers: list[RecordHeader]) -> int:
    if count < 0 or count * 2 > end - position or count > RECORD_HEADERS_MAX:
        raise InvalidRecords(f"{count} headers in {max(end - position, 0)} bytes")
    for _ in range(count):
        name, position = _decode_bytes(body, position, end)
        if name is None:
            raise InvalidRecords("a header without a name")
        value, position = _decode_bytes(body, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return position
