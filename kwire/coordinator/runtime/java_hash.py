"""The two things of Java's that decide what clients see: where a group lives, and how ties between protocols break."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_FIBONACCI = -7046029254386353131


@lru_cache(maxsize=1 << 14)  # a large group's members are put in order with every assignment
def string_hash(text: str) -> int:
    """Java's `String.hashCode`: 31-fold sums over UTF-16 units, as a signed 32-bit number."""
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
    """Java's `String.length`: characters outside the basic plane count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Distinct strings in the order in which a Java `HashMap` filled in the order given yields them."""
    names = list(dict.fromkeys(keys))
    capacity = 16
    while len(names) > capacity * 3 // 4:
        capacity *= 2
    return sorted(names, key=lambda name: _bucket(name, capacity))


def timeline_map_order(keys: Iterable[str]) -> list[str]:
    """Distinct strings in the order in which Kafka's `TimelineHashMap`, filled in the order given, yields them: by
    slots that double when three quarters are taken, the last one of a slot first."""
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
