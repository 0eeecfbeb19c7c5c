"""The ``uniform`` assignor for groups whose members subscribe to different topics.

1. Members keep their partitions of the topics that they still subscribe to.
2. Free partitions go to the least loaded subscribers of their topic. Topics with many partitions per subscriber come
   first.
3. Topic by topic, partitions move from the most to the least loaded subscribers, until a whole round moves none.
"""

from __future__ import annotations

from typing import Final

from kwire.coordinator.assignors.model import GroupAssignment, GroupSpec, mutable, uuid_order

ROUNDS_MAX: Final = 16
NOBODY: Final = -1


def assign_heterogeneous(group: GroupSpec) -> GroupAssignment:
    """Compute the assignment. See the module."""
    if not any(spec.topics for spec in group.members.values()):
        return {}
    return _Builder(group).assign()


class _Builder:
    """Builds the assignment. Members are identified by their index."""

    def __init__(self, group: GroupSpec) -> None:
        self._counts = group.partition_counts
        self._names = list(group.members)
        self._specs = list(group.members.values())
        self.loads = [0] * len(self._names)
        self._subscribers: dict[bytes, list[int]] = {}
        for index, spec in enumerate(self._specs):
            for topic_id in sorted(spec.topics):
                self._subscribers.setdefault(topic_id, []).append(index)
        self._owners = {topic_id: [NOBODY] * self._counts[topic_id] for topic_id in self._subscribers}

    def assign(self) -> GroupAssignment:
        self._keep()
        for topic_id in self._sorted(self._owners):
            balancer = _Balancer(self.loads, self._subscribers[topic_id])
            owners = self._owners[topic_id]
            for partition in [index for index, owner in enumerate(owners) if owner == NOBODY]:
                self._move(topic_id, partition, balancer.next_least_loaded())
        self._balance()
        assignment: GroupAssignment = {name: {} for name in self._names}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assignment[self._names[owner]].setdefault(topic_id, []).append(partition)
        return assignment

    def _keep(self) -> None:
        for index, spec in enumerate(self._specs):
            for topic_id, partitions in mutable(spec.assigned).items():
                if topic_id in spec.topics:
                    owners = self._owners[topic_id]
                    there = [partition for partition in partitions if partition < len(owners)]
                    self.loads[index] += len(there)
                    for partition in there:
                        owners[partition] = index

    def _sorted(self, topic_ids: dict[bytes, list[int]]) -> list[bytes]:
        def order(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
            subscribers = len(self._subscribers[topic_id])
            return -(self._counts[topic_id] / subscribers), subscribers, uuid_order(topic_id)

        return sorted(topic_ids, key=order)

    def _move(self, topic_id: bytes, partition: int, to: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != NOBODY:
            self.loads[owners[partition]] -= 1
        owners[partition] = to
        self.loads[to] += 1

    def _balance(self) -> None:
        topics = [topic_id for topic_id in self._sorted(self._owners) if len(self._subscribers[topic_id]) > 1]
        last_changed = -1
        for _ in range(ROUNDS_MAX):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return  # a whole round without a change
                if self._balance_topic(topic_id) or last_changed == -1:
                    last_changed = index

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of one topic; returns whether any moved. Each member gives its highest partitions first."""
        subscribers = self._subscribers[topic_id]
        loads = [self.loads[index] for index in subscribers]
        if max(loads) - min(loads) <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        balancer = _Balancer(self.loads, subscribers)
        moved = False
        while not balancer.is_balanced():
            giver = balancer.next_most_loaded()
            while giver != NOBODY and not owned.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.next_most_loaded()
            if giver == NOBODY:
                break
            partition = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced():
                break
            self._move(topic_id, partition, taker)
            moved = True
        return moved


class _Balancer:
    """Two ranges of one topic's subscribers, sorted by load: the least loaded, which grows from the left, and the most
    loaded, which grows from the right. All members of a range have the same load. Each pass raises (or lowers) it by
    one.

    ``loads`` is the shared list, which moves change during a pass. A range grows only after a complete pass, when its
    members have exactly the range's level.
    """

    def __init__(self, loads: list[int], members: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda index: (loads[index], index))
        self._low_end = 0
        self._low_level = loads[self._members[0]] - 1
        self._low_next = 0
        self._high_start = self._high_end = len(members)
        self._high_level = loads[self._members[-1]] + 1
        self._high_next = len(members) - 1

    def is_balanced(self) -> bool:
        """Whether another move would not improve the balance."""
        return self._high_level - self._low_level <= 1

    def next_least_loaded(self) -> int:
        """The member that gets the next partition: one of the least loaded."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._members) and self._load_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._members[self._low_next - 1]

    def next_most_loaded(self) -> int:
        """The member that gives the next partition: one of the most loaded, or NOBODY."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._load_at(self._high_start - 1)  # all of the range were excluded
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._load_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return NOBODY
        self._high_next -= 1
        return self._members[self._high_next + 1]

    def exclude_most_loaded(self) -> None:
        """Remove the last member of `next_most_loaded` from its range: it has no partition of the topic to give."""
        members, last = self._members, self._high_end - 1
        members[self._high_next + 1], members[last] = members[last], members[self._high_next + 1]
        self._high_end = last

    def _load_at(self, position: int) -> int:
        return self._loads[self._members[position]]
