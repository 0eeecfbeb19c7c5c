"""Java's string hashing and the iteration order of its hash maps.

Both are visible to clients: they decide which partition of an internal topic a group belongs to, how a tie in the vote
for a protocol breaks, and in which order assignors serve the members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K")

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


def string_order(text: str) -> bytes:
    """The key by which Java sorts strings: their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_map_order(keys: Iterable[str], capacity: int = 16) -> list[str]:
    """Distinct strings in the iteration order of a Java `HashMap` into which they were put in the order of ``keys``.
    ``capacity``: the map's at first, a power of two."""
    names = list(dict.fromkeys(keys))
    capacity = _capacity(len(names), capacity)
    return sorted(names, key=lambda name: _spread(string_hash(name)) & (capacity - 1))


def partitions_order(topic: str, partitions: Iterable[int]) -> list[int]:
    """Distinct partitions of a topic in the iteration order of a Java `HashMap` of `TopicPartition`s."""
    numbers = list(dict.fromkeys(partitions))
    capacity = _capacity(len(numbers), 16)
    topic_hash = string_hash(topic)
    return sorted(numbers, key=lambda number: _spread(31 * (31 + number) + topic_hash) & (capacity - 1))


def timeline_map_order(keys: Iterable[str], size: int = 0) -> list[str]:
    """Distinct strings in the iteration order of Kafka's `TimelineHashMap`, filled in the order of ``keys``. ``size``:
    how many strings the map has, if ``keys`` are not all. There are 2 slots at first, and twice as many whenever
    three quarters of the strings are more than the slots; within a slot the last string comes first."""
    names = list(dict.fromkeys(keys))
    return _timeline_order(names, [string_hash(name) for name in names], max(size, len(names)))


def timeline_map_order_of_hashes(hashes: Mapping[str, int]) -> list[str]:
    """The same for strings whose hashes are known."""
    return _timeline_order(list(hashes), list(hashes.values()), len(hashes))


def timeline_map_order_of_numbers(keys: Iterable[int]) -> list[int]:
    """The same for distinct numbers, whose hashes are the numbers themselves."""
    numbers = list(keys)
    return _timeline_order(numbers, numbers, len(numbers))


def _timeline_order(keys: list[K], hashes: list[int], size: int) -> list[K]:
    bits = 1
    while size * 3 / 4 > 1 << bits:
        bits += 1
    slots = [hashed * _FIBONACCI % (1 << 64) >> 64 - bits for hashed in hashes]
    return [keys[place] for place in sorted(range(len(keys) - 1, -1, -1), key=slots.__getitem__)]


def _capacity(size: int, capacity: int) -> int:
    """The capacity of a `HashMap` that has grown to ``size`` entries."""
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def _spread(hashed: int) -> int:
    """A hash with its upper half mixed into the lower one, as `HashMap` does."""
    hashed &= 0xFFFFFFFF
    return hashed ^ (hashed >> 16)
