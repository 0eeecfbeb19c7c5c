"""The ``range`` assignor: each topic is split into one range of partitions per subscriber.

The order of the members is the same for every topic, so that with topics of equal size a member gets the same partition
numbers of each (co-partitioning). Static members come first, by instance id, then the others by member id. The previous
assignment is ignored.
"""

from __future__ import annotations

from kwire.coordinator.assignors.model import GroupAssignment, GroupSpec, MemberSpec
from kwire.coordinator.runtime.java_hash import string_order


class _Topic:
    """The state of one topic: where the next range starts, and how many ranges still get one more partition."""

    __slots__ = ("extra", "next", "quota")

    def __init__(self, partitions: int, subscribers: int) -> None:
        self.quota, self.extra = divmod(partitions, subscribers)
        self.next = 0

    def take(self) -> list[int]:
        """The next member's range."""
        length = self.quota
        if self.extra:
            length += 1
            self.extra -= 1
        run = list(range(self.next, self.next + length))
        self.next += length
        return run


def assign_range(group: GroupSpec) -> GroupAssignment:
    """Compute the assignment. See the module."""
    subscribers: dict[bytes, int] = {}
    for spec in group.members.values():
        for topic_id in spec.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {topic_id: _Topic(group.partition_counts[topic_id], count) for topic_id, count in subscribers.items()}
    assignment: GroupAssignment = {}
    for member_id, spec in sorted(group.members.items(), key=_sort_key):
        runs = {topic_id: topics[topic_id].take() for topic_id in sorted(spec.topics)}
        assignment[member_id] = {topic_id: run for topic_id, run in runs.items() if run}
    return assignment


def _sort_key(member: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, spec = member
    name = member_id if spec.instance_id is None else spec.instance_id
    return spec.instance_id is None, string_order(name)
