"""Zigzag varints of records (the sint32 and sint64 of Protocol Buffers). Not the unsigned ones of messages."""

from __future__ import annotations

from kwire.codec.records.header import InvalidRecords

_SMALL = [bytes([value]) for value in range(128)]


def encode_varint(value: int) -> bytes:
    """`value`, an int64, in one to ten bytes."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 128:
        return _SMALL[zigzag]
    encoded = bytearray()
    while zigzag > 127:
        encoded.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The int32 at `position` and the position after it; IndexError beyond the end of `data`."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _decode(data, position, 5, 0xFFFFFFFF)


def decode_varlong(data: bytes, position: int) -> tuple[int, int]:
    """The int64 at `position` and the position after it; IndexError beyond the end of `data`."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _decode(data, position, 10, 0xFFFFFFFFFFFFFFFF)


def _decode(data: bytes, position: int, bytes_max: int, mask: int) -> tuple[int, int]:
    value = 0
    for index in range(bytes_max):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            value &= mask  # the last byte may have bits beyond the type's width; Java drops them too
            return (value >> 1) ^ -(value & 1), position + index + 1
    raise InvalidRecords(f"a varint of more than {bytes_max} bytes")
