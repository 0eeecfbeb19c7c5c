"""What the cleaner needs of records: where each lies in a batch's body, its key, and whether it is a tombstone.

These are loops over bytes, because they run for every record of a log: decoding into objects would take five times as
long. A record is, after its length: attributes, timestamp delta, offset delta, key, value, headers (KIP-98). All sizes
and deltas are zigzag varints; -1 (byte 1) is null. The checksum of the batch has been verified; a body that is
malformed all the same raises `InvalidRecords`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from kwire.codec.records.header import InvalidRecords
from kwire.codec.records.varint import decode_varint, decode_varlong, encode_varint

NULL = 1
"""The byte of the zigzag varint -1: no key, no value."""

KEY_BYTES_MAX = 32
"""A longer key is replaced by a hash of one byte more than this, which no short key can equal."""


class FoundRecord(NamedTuple):
    """One record of a body: ``body[start:end]`` with its length in front; ``rest`` is where its offset delta lies."""

    start: int
    rest: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None  # in the form of `map_key`
    is_tombstone: bool


_KEY_ENDS = [1 + (size >> 1) if size <= 2 * KEY_BYTES_MAX and not size & 1 else 0 for size in range(256)]
"""First byte of a key's size -> distance from there to the end of a short key; 0 without a key or for a long one."""

_DELTA_WIDTHS = ((64, 1), (8192, 2), (1 << 20, 3), (1 << 27, 4))
"""(limit, bytes): an offset delta below the limit takes so many bytes."""


def map_key(key: bytes) -> bytes:
    """The form of a key in the map: the key itself, or its hash if it is long."""
    return key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=KEY_BYTES_MAX + 1).digest()


def index_keys(entries: dict[bytes, int], body: bytes, count: int, base_offset: int) -> int:
    """Add every record with a key to ``entries``: key -> twice its offset, plus 1 for a tombstone. Returns how many
    records have no key. Offsets must be ascending and may have gaps."""
    keyless = 0
    for record in walk(body, count):
        if record.key is None:
            keyless += 1
        else:
            entries[record.key] = (base_offset + record.offset_delta) * 2 + record.is_tombstone
    return keyless


def index_dense_keys(entries: dict[bytes, int], body: bytes, count: int, base_offset: int) -> int:
    """`index_keys` for a batch without gaps, as producers write them: the n-th record has offset delta n, so that the
    deltas need not be read. If the last delta is another one, `index_keys` does the work."""
    end = position = keyless = lowest = 0
    delta_bytes = 1
    for limit, delta_bytes in _DELTA_WIDTHS:
        skipped = delta_bytes + 1
        highest = min(limit, count)
        for value in range((base_offset + lowest) * 2, (base_offset + highest) * 2, 2):
            position = end
            size = body[position]  # the length, of one or two bytes in almost every record
            if size < 128:
                end = position + 1 + (size >> 1)
                position += 2  # behind the attributes
            elif body[position + 1] < 128:
                end = position + 2 + ((body[position + 1] << 7 | size & 127) >> 1)
                position += 3
            else:
                size, position = decode_varint(body, position)
                end = position + size
                position += 1
            while body[position] > 127:  # the timestamp delta does not matter
                position += 1
            position += skipped
            key_end = _KEY_ENDS[body[position]]
            if key_end:
                key_end += position
                entries[body[position + 1 : key_end]] = value + (body[key_end] == NULL)
            elif body[position] == NULL:
                keyless += 1
            else:
                size, start = decode_varint(body, position)
                entries[map_key(body[start : start + size])] = value + (body[start + size] == NULL)
        lowest = highest
        if highest == count:
            break
    if body[position - delta_bytes : position] != encode_varint(count - 1):
        return index_keys(entries, body, count, base_offset)
    if end != len(body):
        raise InvalidRecords(f"{count} records end at byte {end} of {len(body)}")
    return keyless


def pick(body: bytes, count: int, deltas: Iterable[int]) -> list[FoundRecord] | None:
    """The records with these offset deltas (ascending) of a batch without gaps, skipping the others by their lengths;
    None if the batch has gaps."""
    found = []
    index = position = 0
    for delta in deltas:
        while index < delta:
            size = body[position]
            if size < 128:
                position += 1 + (size >> 1)
            elif body[position + 1] < 128:
                position += 2 + ((body[position + 1] << 7 | size & 127) >> 1)
            else:
                size, position = decode_varint(body, position)
                position += size
            index += 1
        if index >= count:
            return None
        record = _found_at(body, position)
        if record.offset_delta != delta:
            return None
        found.append(record)
        position, index = record.end, index + 1
    return found


def walk(body: bytes, count: int) -> Iterator[FoundRecord]:
    """Every record of a body. IndexError or InvalidRecords if the body is malformed."""
    position = 0
    for _ in range(count):
        record = _found_at(body, position)
        position = record.end
        yield record
    if position != len(body):
        raise InvalidRecords(f"{count} records end at byte {position} of {len(body)}")


def _found_at(body: bytes, start: int) -> FoundRecord:
    size, position = decode_varint(body, start)
    end = position + size
    timestamp_delta, rest = decode_varlong(body, position + 1)
    offset_delta, position = decode_varint(body, rest)
    size, position = decode_varint(body, position)
    key = None
    if size >= 0:
        key = map_key(body[position : position + size])
        position += size
    if not position < end <= len(body):
        raise InvalidRecords(f"a record from byte {start} to {end} of {len(body)}")
    return FoundRecord(start, rest, end, offset_delta, timestamp_delta, key, body[position] == NULL)


def with_timestamp_delta(body: bytes, record: FoundRecord, timestamp_delta: int) -> bytes:
    """A record's bytes with another timestamp delta."""
    _, attributes = decode_varint(body, record.start)
    content = body[attributes : attributes + 1] + encode_varint(timestamp_delta) + body[record.rest : record.end]
    return encode_varint(len(content)) + content
