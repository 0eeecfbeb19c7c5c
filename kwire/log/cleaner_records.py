"""Records as the cleaner sees them: where each lies in a batch's body, its key, and whether it is a tombstone.

Written as loops over bytes, because they run for every record of a log: decoding into objects would take five times as
long. A record is, after its length: attributes, timestamp delta, offset delta, key, value, headers (KIP-98), all sizes
and deltas zigzag varints, where -1 (byte 1) stands for null. Batches whose checksum is right come here; one that does
not add up all the same raises `InvalidRecords`.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from kwire.codec.records.header import InvalidRecords
from kwire.codec.records.varint import decode_varint, decode_varlong, encode_varint

NULL = 1
"""The byte of the zigzag varint -1: no key, no value."""

KEY_BYTES_MAX = 32
"""A longer key is represented by a digest of one byte more than this, which no short key can equal."""


class FoundRecord(NamedTuple):
    """One record of a body: ``body[start:end]`` with its length in front; ``rest`` is where its offset delta lies."""

    start: int
    rest: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None  # as `map_key` represents it
    is_tombstone: bool


def map_key(key: bytes) -> bytes:
    """What stands for a key in the map: itself, or its digest if it is long."""
    return key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=KEY_BYTES_MAX + 1).digest()


def index_keys(entries: dict[bytes, int], body: bytes, count: int, base_offset: int) -> int:
    """Enter every record that has a key into ``entries``: key -> twice its offset, plus 1 for a tombstone. Returns how
    many records have none."""
    position = keyless = 0
    twice = base_offset * 2
    for _ in range(count):
        size = body[position]  # the length, of one or two bytes in almost every record
        if size < 128:
            position += 1
            end = position + (size >> 1)
        elif body[position + 1] < 128:
            end = position + 2 + ((body[position + 1] << 7 | size & 127) >> 1)
            position += 2
        else:
            size, position = decode_varint(body, position)
            end = position + size
        position += 1
        while body[position] > 127:  # the timestamp delta does not matter
            position += 1
        position += 1
        delta = body[position]  # the offset delta, zigzag: twice its value
        if delta < 128:
            position += 1
        elif body[position + 1] < 128:
            delta = body[position + 1] << 7 | delta & 127
            position += 2
        else:
            delta, position = decode_varint(body, position)
            delta *= 2
        size = body[position]
        if size <= 2 * KEY_BYTES_MAX and not size & 1:
            key_end = position + 1 + (size >> 1)
            entries[body[position + 1 : key_end]] = twice + delta + (body[key_end] == NULL)
        elif size == NULL:
            keyless += 1
        else:
            size, position = decode_varint(body, position)
            entries[map_key(body[position : position + size])] = twice + delta + (body[position + size] == NULL)
        position = end
    if position != len(body):
        raise InvalidRecords(f"{count} records end at byte {position} of {len(body)}")
    return keyless


def walk(body: bytes, count: int) -> Iterator[FoundRecord]:
    """Every record of a body. IndexError or InvalidRecords if it does not hold them."""
    position = 0
    for _ in range(count):
        start = position
        size, position = decode_varint(body, position)
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
        yield FoundRecord(start, rest, end, offset_delta, timestamp_delta, key, body[position] == NULL)
        position = end
    if position != len(body):
        raise InvalidRecords(f"{count} records end at byte {position} of {len(body)}")


def with_timestamp_delta(body: bytes, record: FoundRecord, timestamp_delta: int) -> bytes:
    """A record's bytes with another timestamp delta."""
    _, attributes = decode_varint(body, record.start)
    content = body[attributes : attributes + 1] + encode_varint(timestamp_delta) + body[record.rest : record.end]
    return encode_varint(len(content)) + content
