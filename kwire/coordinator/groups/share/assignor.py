"""The assignor `simple` of share groups (KIP-932): every partition is shared by about the same number of members.

There may be more members than partitions: then each partition has several members. Members keep what they have as far
as the numbers allow it. If all members subscribe to the same topics, all partitions are distributed together; otherwise
each topic by itself among its subscribers. The numbers are those of Kafka's `SimpleAssignor`; which partitions a member
gets may differ, because Kafka takes them in the order of its hash maps. Pure functions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Partition = tuple[bytes, int]
"""Topic id and index."""
Assigned = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""


class ShareMemberSpec(NamedTuple):
    """A member's subscription (topic ids) and its present target assignment."""

    topics: frozenset[bytes]
    assigned: Assigned


def assign_simple(
    members: Mapping[str, ShareMemberSpec], assignable: Mapping[bytes, Iterable[int]]
) -> dict[str, dict[bytes, frozenset[int]]]:
    """The target assignment of each member. ``assignable``: the partitions of each topic that may be assigned."""
    found: dict[str, list[Partition]] = {member_id: [] for member_id in members}
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) == 1:
        _share(list(members), _partitions(sorted(*subscriptions), assignable), members, found)
    else:
        for topic in sorted({topic for topics in subscriptions for topic in topics}):
            subscribers = [member_id for member_id, member in members.items() if topic in member.topics]
            _share(subscribers, _partitions([topic], assignable), members, found)
    return {member_id: _by_topic(partitions) for member_id, partitions in found.items()}


def _partitions(topics: Iterable[bytes], assignable: Mapping[bytes, Iterable[int]]) -> list[Partition]:
    return [(topic, index) for topic in topics for index in sorted(assignable.get(topic, ()))]


def _share(
    member_ids: Sequence[str],
    partitions: Sequence[Partition],
    members: Mapping[str, ShareMemberSpec],
    found: Mapping[str, list[Partition]],
) -> None:
    """Distribute partitions among members, in addition to what ``found`` has."""
    if not partitions:
        return
    sharing = -(-len(member_ids) // len(partitions))
    holders: dict[Partition, set[str]] = {partition: set() for partition in partitions}
    unfilled: deque[tuple[str, int]] = deque()
    for place, member_id in enumerate(member_ids):
        wanted = _ceil(sharing * len(partitions), place + 1, len(member_ids))
        wanted -= _ceil(sharing * len(partitions), place, len(member_ids))
        kept = 0
        assigned = members[member_id].assigned
        for topic, index in partitions:
            if kept < wanted and index in assigned.get(topic, ()) and len(holders[topic, index]) < sharing:
                holders[topic, index].add(member_id)
                found[member_id].append((topic, index))
                kept += 1
        if kept < wanted:
            unfilled.append((member_id, wanted - kept))
    _fill(partitions, sharing, holders, unfilled, found)


def _fill(
    partitions: Sequence[Partition],
    sharing: int,
    holders: Mapping[Partition, set[str]],
    unfilled: deque[tuple[str, int]],
    found: Mapping[str, list[Partition]],
) -> None:
    """Give partitions that have too few members to those that have too few partitions, in turn."""
    for partition in partitions:
        passed_over = 0
        while len(holders[partition]) < sharing and passed_over < len(unfilled):
            member_id, lacking = unfilled.popleft()
            if member_id in holders[partition]:
                unfilled.append((member_id, lacking))
                passed_over += 1
                continue
            passed_over = 0
            holders[partition].add(member_id)
            found[member_id].append(partition)
            if lacking > 1:
                unfilled.append((member_id, lacking - 1))


def _ceil(total: int, share: int, of: int) -> int:
    return -(-total * share // of)


def _by_topic(partitions: Iterable[Partition]) -> dict[bytes, frozenset[int]]:
    grouped: dict[bytes, set[int]] = {}
    for topic, index in partitions:
        grouped.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in grouped.items()}
