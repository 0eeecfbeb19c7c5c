"""Kafka's 128-bit ids (topics, directories, clusters): 16 raw bytes in the code, URL-safe base64 for people."""

from __future__ import annotations

import base64
import binascii
from typing import Final, Protocol

ZERO_UUID: Final = bytes(16)
"""Means "no id" in requests and responses."""


class RandomBytes(Protocol):
    """A source of random bytes, such as `random.Random`."""

    def randbytes(self, n: int, /) -> bytes:
        """``n`` random bytes."""


def random_uuid(random: RandomBytes) -> bytes:
    """A version 4 UUID whose text form does not begin with "-" (Kafka's `Uuid.randomUuid`: tools would take
    such an id for an option)."""
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        if not uuid_to_text(bytes(raw)).startswith("-"):
            return bytes(raw)


def uuid_to_text(raw: bytes) -> str:
    """The 22-character form that Kafka prints and stores in `meta.properties` and `partition.metadata`."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The inverse of `uuid_to_text`; raises ValueError for anything that is not 16 bytes."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"{text!r} is not a Kafka UUID") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a Kafka UUID: {len(raw)} bytes instead of 16")
    return raw
