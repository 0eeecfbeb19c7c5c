"""Java's string hashing and the iteration order of its hash maps.

Both are visible to clients: they decide which partition of an internal topic a group belongs to, how a tie in the vote
for a protocol breaks, and in which order assignors serve the members.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_FIBONACCI = -7046029254386353131


@lru_cache(maxsize=1 << 14)  # every assignment sorts the members of its group
def string_hash(text: str) -> int:
    """Java's `String.hashCode`, computed over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (value * 31 + unit) & 0xFFFFFFFF
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        for position in range(0, len(raw), 2):
            value = (value * 31 + (raw[position] << 8 | raw[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that a group or transactional id belongs to."""
    hashed = string_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions


def utf16_length(text: str) -> int:
    """Java's `String.length`: a character outside the Basic Multilingual Plane counts as two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def hash_map_order(keys: Iterable[str], capacity: int = 16) -> list[str]:
    """Distinct strings in the iteration order of a Java `HashMap` into which they were put in the order of ``keys``.
    ``capacity``: the map's at first, a power of two."""
    names = list(dict.fromkeys(keys))
    while len(names) > capacity * 3 // 4:
        capacity *= 2
    return sorted(names, key=lambda name: _bucket(name, capacity))


def timeline_map_order(keys: Iterable[str]) -> list[str]:
    """Distinct strings in the iteration order of Kafka's `TimelineHashMap`, filled in the order of ``keys``. The number
    of slots doubles when three quarters are taken; within a slot the last string comes first."""
    names = list(dict.fromkeys(keys))
    names.reverse()
    bits = 1
    while len(names) > (1 << bits) * 3 / 4:
        bits += 1
    slots = {name: string_hash(name) * _FIBONACCI % (1 << 64) >> 64 - bits for name in names}
    return sorted(names, key=slots.__getitem__)


def _bucket(name: str, capacity: int) -> int:
    hashed = string_hash(name) & 0xFFFFFFFF
    return (hashed ^ (hashed >> 16)) & (capacity - 1)
