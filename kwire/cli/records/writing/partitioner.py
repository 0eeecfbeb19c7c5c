"""Kafka's default partitioner: the murmur2 hash of the key; without a key, one partition until its batch is full."""

from __future__ import annotations

import random
from collections.abc import Sequence
from struct import unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_KNOWN_MAX: Final = 100_000


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash as Kafka's clients compute it, unsigned."""
    size = len(data)
    value = _SEED ^ size
    words = size >> 2
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> _SHIFT) * _FACTOR & _MASK
        value = (value * _FACTOR & _MASK) ^ mixed
    if rest := data[words << 2 :]:
        value = (value ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    value = (value ^ value >> 13) * _FACTOR & _MASK
    return value ^ value >> 15


class Partitioner:
    """Partitions of one topic, which has ``count``."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: dict[bytes, int] = {}
        self._sticky = random.randrange(count)

    @property
    def sticky(self) -> int:
        """The partition for records without a key."""
        return self._sticky

    def turn(self) -> None:
        """Choose another partition for records without a key: the last one's batch is full."""
        if self._count > 1:
            self._sticky = (self._sticky + random.randrange(1, self._count)) % self._count

    def partitions(self, keys: Sequence[bytes | None]) -> list[int]:
        """The partition of each key."""
        known, sticky = self._known, self._sticky
        if len(known) > _KNOWN_MAX:
            known.clear()
        found = []
        for key in keys:
            if key is None:
                found.append(sticky)
                continue
            partition = known.get(key)
            if partition is None:
                partition = known[key] = (murmur2(key) & _POSITIVE) % self._count
            found.append(partition)
        return found
