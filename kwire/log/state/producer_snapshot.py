"""The `.snapshot` files: a producer table at one offset, in Kafka's format (ProducerSnapshot, version 1), big-endian:

    version:int16  crc:uint32  count:int32  entries...

The CRC-32C covers all that follows it. A snapshot keeps the last batch of each producer only, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kwire.codec.crc import crc32c

VERSION = 1
_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_END = 6


class SnapshotEntry(NamedTuple):
    """One producer. ``current_txn_first_offset`` is -1 without an ongoing transaction; ``last_sequence`` and
    ``last_offset`` are -1 if no data batch of it is known (only a transaction marker)."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class CorruptSnapshot(Exception):
    """A snapshot file that is incomplete or damaged, or has an unknown version."""


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """The bytes of a snapshot file."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries of a snapshot file. CorruptSnapshot."""
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except StructError as error:
        raise CorruptSnapshot(f"{len(data)} bytes") from error
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c(data[_CRC_END:]) != crc:
        raise CorruptSnapshot("the checksum does not match")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes for {count} producers")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]
