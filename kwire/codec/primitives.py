"""The primitive types of the protocol, where the generated code calls functions: varints, arrays, tags, errors."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Packer
from struct import pack, unpack_from
from typing import Any

from kwire.codec.errors import CodecError
from kwire.codec.message import UnknownTags

Buffer = bytes | bytearray | memoryview

MAX_STRING = 32767
MAX_INT32 = 0x7FFFFFFF
#: Records shorter than this are cheaper to copy into the frame than to send on their own.
LARGE_RECORDS = 4096

#: The varints of one byte.
SHORT_VARINTS = tuple(bytes((value,)) for value in range(128))
_ARRAYS = {code: tuple(Packer(f">{count}{code}") for count in range(17)) for code in "?bhHiIqd"}


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 128:
        return SHORT_VARINTS[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if value > MAX_INT32:
        raise CodecError(f"length {value} is too large")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_varint(value: int) -> bytes:
    """The length of a compact string plus one."""
    if value > MAX_STRING + 1:
        raise CodecError(f"a string of {value - 1} bytes is longer than {MAX_STRING}")
    return varint(value)


def rest_of_varint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """An unsigned varint whose first byte, above 127, lies just before the position -> (value, end)."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > MAX_INT32:
                break
            return value, position
    raise CodecError("a varint is too long")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint -> (value, end)."""
    first = buffer[position]
    return (first, position + 1) if first < 128 else rest_of_varint(buffer, position + 1, first)


def read_unknown_tags(buffer: Buffer, position: int, end: int, count: int, left: int) -> tuple[UnknownTags, int, int]:
    """A non-empty section of tagged fields of which none is known -> (tags, end, what is left of the budget)."""
    if count > 127:
        count, position = rest_of_varint(buffer, position, count)
    left = charge_tags(count, left)
    tags = []
    last = -1
    for _ in range(count):
        tag, start, position = read_tag(buffer, position, end, last)
        tags.append((tag, bytes(buffer[start:position])))
        last = tag
    return tuple(tags), position, left


def charge_tags(count: int, left: int) -> int:
    """Charge tagged fields to the budget -> what is left of it. CodecError if they are too many."""
    if count * 2 > left:
        raise CodecError(f"{count} tagged fields are too many")
    return left - count * 2


def read_tag(buffer: Buffer, position: int, end: int, last: int) -> tuple[int, int, int]:
    """-> (tag, start, end of the value). The protocol requires tags in ascending order (KIP-482)."""
    tag, position = read_varint(buffer, position)
    size, position = read_varint(buffer, position)
    if tag <= last:
        raise CodecError(f"tag {tag} comes after tag {last}")
    if size > end - position:
        raise CodecError(f"tag {tag} has {size} bytes where {end - position} are left")
    return tag, position, position + size


def tag_section(known: list[tuple[int, bytes]], unknown: UnknownTags) -> bytes:
    """All tagged fields of a struct, unknown ones at their place among the known ones."""
    tags = sorted([*known, *unknown]) if known and unknown else known or unknown
    parts = [varint(len(tags))]
    last = -1
    for tag, body in tags:
        if tag <= last:
            raise CodecError(f"tag {tag} comes after tag {last}")
        last = tag
        parts += (varint(tag), varint(len(body)), body)
    return b"".join(parts)


def read_array(code: str, buffer: Buffer, position: int, count: int) -> list[Any]:
    """Numbers of one fixed size; the caller has checked that they are there."""
    if count < 17:
        return list(_ARRAYS[code][count].unpack_from(buffer, position))
    return list(unpack_from(f">{count}{code}", buffer, position))


def read_uuids(buffer: Buffer, position: int, count: int) -> list[bytes]:
    """UUIDs; the caller has checked that they are there."""
    return [bytes(buffer[at : at + 16]) for at in range(position, position + 16 * count, 16)]


def write_array(code: str, values: Sequence[Any]) -> bytes:
    """Numbers of one fixed size. struct.error if one does not fit."""
    count = len(values)
    return _ARRAYS[code][count].pack(*values) if count < 17 else pack(f">{count}{code}", *values)


def write_uuids(values: Sequence[bytes]) -> bytes:
    """UUIDs, 16 bytes each."""
    if any(len(value) != 16 for value in values):
        raise CodecError("a UUID is not 16 bytes long")
    return b"".join(values)


def records_size(records: Any) -> int:
    """The size in bytes of anything that a `records` field may hold."""
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    return records.nbytes if isinstance(records, memoryview) else int(records.size)


def write_records(records: Any, out: list[Any], parts: list[Any] | None) -> None:
    """Append records to the pieces of a frame; on their own when that saves copying, or when they are elsewhere."""
    if isinstance(records, (bytes, bytearray, memoryview)):
        if parts is None or len(records) < LARGE_RECORDS:
            out.append(records)
            return
    elif parts is None:
        raise CodecError("records of a file can only be encoded in parts")
    if out:
        parts.append(b"".join(out))
        out.clear()
    parts.append(records)


def bad_length(field: str, length: int) -> CodecError:
    """The error of a length that is negative or longer than the frame."""
    return CodecError(f"{field} has length {length}, which is not possible here")


def null_refused(field: str) -> CodecError:
    """The error of a null that the version does not allow."""
    return CodecError(f"{field} is null, which its version does not allow")


def bad_tag_size(field: str) -> CodecError:
    """The error of a tagged field that is shorter or longer than its size."""
    return CodecError(f"{field} does not fill its tagged field")


def not_in_version(field: str, version: int) -> CodecError:
    """The error of a field that is set, although the version cannot carry it."""
    return CodecError(f"{field} is set, but version {version} cannot carry it")
