"""A reader of ASN.1 in the distinguished and basic encoding rules (X.690): elements of tag, length and content.

It splits bytes into elements and reads object identifiers and integers. Indefinite lengths are accepted, since some
programs write PKCS12 files with them. `names.distinguished` and `tls.pkcs12` interpret the elements, where the package
cryptography does not give access to them. Malformed bytes raise `DerError` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31
CONTEXT_0: Final = 0xA0
"""The explicit tag [0]."""

_CONSTRUCTED: Final = 0x20
_LONG_TAG: Final = 0x1F
_INDEFINITE: Final = 0x80
_DEPTH_MAX: Final = 32


class DerError(ValueError):
    """Bytes that are not ASN.1, or an element of another kind than expected."""


class Element(NamedTuple):
    """One element: its tag byte, its content and the whole of its bytes."""

    tag: int
    content: bytes
    encoded: bytes

    def expect(self, tag: int) -> Element:
        """The element itself, if it has this tag. Raises `DerError`."""
        if self.tag != tag:
            raise DerError(f"tag {self.tag:#04x} instead of {tag:#04x}")
        return self

    def parts(self, tag: int) -> list[Element]:
        """The elements within this one, which must have a tag (SEQUENCE, SET, [0])."""
        return list(elements(self.expect(tag).content))

    def only(self, tag: int) -> Element:
        """The one element within this one."""
        parts = self.parts(tag)
        if len(parts) != 1:
            raise DerError(f"{len(parts)} elements instead of one")
        return parts[0]

    def integer(self) -> int:
        """The value of an INTEGER."""
        return int.from_bytes(self.expect(INTEGER).content, "big", signed=True)

    def identifier(self) -> str:
        """The value of an OBJECT IDENTIFIER: ``2.5.4.3``."""
        return dotted(self.expect(OBJECT_IDENTIFIER).content)

    def octets(self, depth: int = 0) -> bytes:
        """The bytes of an OCTET STRING, which may be in pieces (BER)."""
        if depth > _DEPTH_MAX:
            raise DerError("elements within too many elements")
        if self.tag & ~_CONSTRUCTED not in (OCTET_STRING, 0x80):
            raise DerError(f"tag {self.tag:#04x} instead of an octet string")
        if not self.tag & _CONSTRUCTED:
            return self.content
        return b"".join(piece.octets(depth + 1) for piece in elements(self.content))


def read_whole(data: bytes) -> Element:
    """The only element in ``data``."""
    element, end = read(data)
    if end != len(data):
        raise DerError(f"{len(data) - end} bytes after the element")
    return element


def elements(data: bytes) -> Iterator[Element]:
    """The elements in ``data``, one after the other."""
    offset = 0
    while offset < len(data):
        element, offset = read(data, offset)
        yield element


def read(data: bytes, offset: int = 0, depth: int = 0) -> tuple[Element, int]:
    """The element at an offset, and the offset after it."""
    if depth > _DEPTH_MAX:
        raise DerError("elements within too many elements")
    if offset + 2 > len(data):
        raise DerError("the bytes end within an element")
    tag, length, start = data[offset], data[offset + 1], offset + 2
    if tag & _LONG_TAG == _LONG_TAG:
        raise DerError("a tag of more than one byte")
    if length == _INDEFINITE and tag & _CONSTRUCTED:
        return _read_indefinite(data, offset, depth)
    if length >= _INDEFINITE:
        size = length - _INDEFINITE
        if not 1 <= size <= 4 or start + size > len(data):
            raise DerError("a length that cannot be")
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    end = start + length
    if end > len(data):
        raise DerError("the bytes end within an element")
    return Element(tag, data[start:end], data[offset:end]), end


def _read_indefinite(data: bytes, offset: int, depth: int) -> tuple[Element, int]:
    end = offset + 2
    while data[end : end + 2] != b"\0\0":
        _, end = read(data, end, depth + 1)
    return Element(data[offset], data[offset + 2 : end], data[offset : end + 2]), end + 2


def dotted(content: bytes) -> str:
    """An object identifier's content as dotted numbers."""
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier that is not whole")
    numbers: list[int] = []
    value, fresh = 0, True
    for byte in content:
        if fresh and byte == 0x80:
            raise DerError("an object identifier with a padded number")
        value, fresh = value << 7 | byte & 0x7F, False
        if not byte & 0x80:
            numbers.append(value)
            value, fresh = 0, True
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
