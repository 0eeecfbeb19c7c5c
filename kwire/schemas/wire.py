"""Confluent's wire format: what stands before a payload, so that a reader finds its schema.

    payload = frame(7, encoded)                  # 0, then the schema's id in 4 bytes, then the value
    schema_id, body = split(payload)
    indexes, value = split_indexes(body)         # Protobuf only: which message of the file

The indexes lead from the file's messages to nested ones: (1, 0) is the first message within the second one. They are
zigzag varints, their count first; the usual (0,) is written as the single byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.schemas.errors import DecodeError

MAGIC: Final = 0
HEADER_BYTES: Final = 5
_INDEXES_MAX: Final = 64


class Framed(NamedTuple):
    """The parts of a payload. ``body``: what follows the header."""

    schema_id: int
    body: bytes


def frame(schema_id: int, body: bytes) -> bytes:
    """A payload with its header."""
    return bytes((MAGIC,)) + schema_id.to_bytes(4, "big") + body


def split(payload: bytes) -> Framed:
    """The parts of a payload. `DecodeError` if it has no header."""
    if len(payload) < HEADER_BYTES or payload[0] != MAGIC:
        raise DecodeError("no schema id: the payload does not begin with a zero byte and four bytes of an id")
    return Framed(int.from_bytes(payload[1:HEADER_BYTES], "big"), payload[HEADER_BYTES:])


def is_framed(payload: bytes | None) -> bool:
    """Whether a payload begins like one with a header. Others may do so by chance."""
    return payload is not None and len(payload) >= HEADER_BYTES and payload[0] == MAGIC


def join_indexes(indexes: Sequence[int], body: bytes) -> bytes:
    """The body of a Protobuf payload."""
    if tuple(indexes) == (0,):
        return b"\x00" + body
    return b"".join(map(_zigzag, (len(indexes), *indexes))) + body


def split_indexes(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """The indexes of the message and its bytes. `DecodeError`."""
    count, position = _read_zigzag(body, 0)
    if count == 0:
        return (0,), body[position:]
    if not 0 < count <= _INDEXES_MAX:
        raise DecodeError(f"a message cannot have {count} indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_zigzag(body, position)
        if index < 0:
            raise DecodeError("an index of a message is negative")
        indexes.append(index)
    return tuple(indexes), body[position:]


def _zigzag(number: int) -> bytes:
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise DecodeError("the indexes of the message are cut off")
