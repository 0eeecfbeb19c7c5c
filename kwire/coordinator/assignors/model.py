"""The input and output of assignors, and the sort orders of topic ids in Kafka's assignors."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, Collection[int]]
"""Topic id -> partition indexes in ascending order."""

GroupAssignment = dict[str, dict[bytes, list[int]]]
"""Member id -> topic id -> partitions in ascending order. A member without partitions may be missing."""


class MemberSpec(NamedTuple):
    """One member: the topics that it subscribes to, and its part of the last target assignment."""

    topics: frozenset[bytes]
    assigned: Partitions
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group. Partitions are assigned in the order of ``members``. ``partition_counts`` has every subscribed topic.
    ``homogeneous``: all members subscribe to the same topics."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    homogeneous: bool


_UUID = struct.Struct(">QQ")
_SIGNED = struct.Struct(">qq")
_MASK = 0xFFFFFFFF


def uuid_order(topic_id: bytes) -> tuple[int, int]:
    """The key by which Kafka sorts topic ids: two signed numbers."""
    high, low = _SIGNED.unpack(topic_id)
    return high, low


def hash_set_order(topic_ids: Iterable[bytes]) -> list[bytes]:
    """Topic ids in the iteration order of a Java `HashSet` that was created from the whole collection."""
    ids = sorted(topic_ids)
    wanted = max(int(len(ids) / 0.75) + 1, 16)
    capacity = 1 << (wanted - 1).bit_length()
    return sorted(ids, key=lambda topic_id: _bucket(topic_id, capacity))


def _bucket(topic_id: bytes, capacity: int) -> int:
    high: int
    low: int
    high, low = _UUID.unpack(topic_id)
    mixed = high ^ low
    hashed = (mixed >> 32 ^ mixed) & _MASK
    return (hashed ^ hashed >> 16) & (capacity - 1)


def mutable(assigned: Partitions) -> dict[bytes, list[int]]:
    """A mutable copy of an assignment."""
    return {topic_id: sorted(partitions) for topic_id, partitions in assigned.items()}
