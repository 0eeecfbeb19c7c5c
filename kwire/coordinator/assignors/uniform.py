"""The ``uniform`` assignor: as balanced as possible, with as few moved partitions as possible.

This module handles groups whose members all subscribe to the same topics, `uniform_heterogeneous` all others.
"""

from __future__ import annotations

from kwire.coordinator.assignors.model import GroupAssignment, GroupSpec, MemberSpec, hash_set_order
from kwire.coordinator.assignors.uniform_heterogeneous import assign_heterogeneous

TopicIdPartition = tuple[bytes, int]
"""A topic id and a partition index."""


def assign_uniform(group: GroupSpec) -> GroupAssignment:
    """Compute the assignment. See the module."""
    if not group.members:
        return {}
    return _Homogeneous(group).assign() if group.homogeneous else assign_heterogeneous(group)


class _Homogeneous:
    """Every member keeps partitions up to its quota. Free partitions then go to the members below theirs, in order."""

    def __init__(self, group: GroupSpec) -> None:
        self._members = group.members
        self._topics = next(iter(group.members.values())).topics
        self._counts = group.partition_counts
        total = sum(self._counts[topic_id] for topic_id in self._topics)
        self._quota, self._extra = divmod(total, len(group.members))
        self._free: list[TopicIdPartition] = []
        self._unfilled: list[tuple[str, int]] = []
        self._assignment: GroupAssignment = {}

    def assign(self) -> GroupAssignment:
        if not self._topics:
            return {}
        self._find_free()
        left = len(self._members)
        for member_id, spec in self._members.items():
            self._keep(member_id, spec, left)
            left -= 1
        self._hand_out()
        return self._assignment

    def _find_free(self) -> None:
        owned = {
            (topic_id, partition)
            for spec in self._members.values()
            for topic_id, partitions in spec.assigned.items()
            for partition in partitions
        }
        for topic_id in hash_set_order(self._topics):
            free = ((topic_id, partition) for partition in range(self._counts[topic_id]))
            self._free.extend(one for one in free if one not in owned)

    def _keep(self, member_id: str, spec: MemberSpec, members_left: int) -> None:
        """Let a member keep partitions up to its quota. It gets one more than the minimum only if it has that many
        already, or if too few members come after it to take the remainder."""
        quota = self._quota
        one_more = self._extra > 0
        if one_more:
            quota += 1
        kept: dict[bytes, list[int]] = {}
        for topic_id, assigned in spec.assigned.items():
            if topic_id not in self._topics:
                continue
            partitions = list(assigned)
            if (
                partitions and partitions[-1] >= self._counts[topic_id]
            ):  # from a classic group: a topic of this name was recreated
                partitions = [partition for partition in partitions if partition < self._counts[topic_id]]
            keep, revoke = partitions[:quota], partitions[quota:]
            quota -= len(keep)
            self._free.extend((topic_id, partition) for partition in revoke)
            if keep:
                kept[topic_id] = keep
        if quota > 0 and one_more and members_left > self._extra:
            quota -= 1
            one_more = False
        if quota > 0:
            self._unfilled.append((member_id, quota))
        if one_more:
            self._extra -= 1
        self._assignment[member_id] = kept

    def _hand_out(self) -> None:
        free = iter(self._free)
        for member_id, quota in self._unfilled:
            assignment = self._assignment[member_id]
            touched: dict[bytes, None] = {}
            for _, (topic_id, partition) in zip(range(quota), free, strict=False):
                assignment.setdefault(topic_id, []).append(partition)
                touched[topic_id] = None
            for topic_id in touched:
                assignment[topic_id].sort()
