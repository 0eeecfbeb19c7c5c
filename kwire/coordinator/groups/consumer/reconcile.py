"""How a member gets from what it owns to what it should own: give up first, then take what others have given up.

A pure function of the member and what it reports; it never lets two members own a partition. UNREVOKED_PARTITIONS lasts
until a heartbeat no longer names the partitions to give up, and holds the member back in its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.assignors.model import Partitions
from kwire.coordinator.groups.consumer.member import ConsumerMember, MemberState, OwnedPartitions

Reported = Sequence[tuple[bytes, Sequence[int]]] | None
"""The partitions that the heartbeat says it owns: topic id, partitions. None: it does not say."""


class Goal(NamedTuple):
    """Where a member is to get, and what stands in its way.

    ``topics``: what it subscribes to now; ``owner`` tells who has a partition; ``subscription_changed``: what it no
    longer subscribes to is taken from it at once, even while the target assignment is older.
    """

    epoch: int
    target: Partitions
    topics: Collection[bytes]
    owner: Callable[[bytes, int], str | None]
    reported: Reported
    subscription_changed: bool


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member's next state; itself if nothing changes. Raises FENCED_MEMBER_EPOCH for a state not known here."""
    if member.state is MemberState.STABLE and member.epoch == goal.epoch:
        return _drop_unsubscribed(member, goal) if goal.subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(member.revoking, goal.reported):
        return _drop_unsubscribed(member, goal) if goal.subscription_changed else member
    if member.state is MemberState.UNKNOWN and (goal.reported is None or goal.reported):
        message = "The state of the member is not known here: it must give up all and join again."
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return _towards(member, goal)


def _still_owns(revoking: Mapping[bytes, Mapping[int, int]], reported: Reported) -> bool:
    """Whether the member has, or may have, something of this. One that does not say may."""
    if reported is None:
        return True
    return any(partition in revoking.get(topic_id, {}) for topic_id, partitions in reported for partition in partitions)


def _drop_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Take away what the member no longer subscribes to; the target does not matter for that."""
    gone = [topic_id for topic_id in member.assigned if topic_id not in goal.topics]
    if not gone:
        return member
    assigned = {topic_id: owned for topic_id, owned in member.assigned.items() if topic_id in goal.topics}
    revoking = dict(member.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    smaller = member.at_epoch(member.epoch)._replace(assigned=assigned)
    if _still_owns(revoking, goal.reported):
        return smaller._replace(state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return smaller


def _towards(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """One step towards the target."""
    assigned: OwnedPartitions = {}
    revoking: OwnedPartitions = {}
    awaited = False
    wanted: dict[bytes, list[int]] = {}
    for topic_id in dict.fromkeys((*goal.target, *member.assigned)):
        target = goal.target.get(topic_id, ()) if topic_id in goal.topics else ()
        owned = member.assigned.get(topic_id, {})
        should = frozenset(target)
        keep = {partition: epoch for partition, epoch in owned.items() if partition in should}
        give = {partition: epoch for partition, epoch in owned.items() if partition not in should}
        take = [partition for partition in target if partition not in keep]
        free = [partition for partition in take if _is_free(member, goal, topic_id, partition)]
        awaited = awaited or len(free) < len(take)
        if keep:
            assigned[topic_id] = keep
        if give:
            revoking[topic_id] = give
        if free:
            wanted[topic_id] = free
    if revoking and _still_owns(revoking, goal.reported):
        return member.at_epoch(member.epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking
        )
    for topic_id, free in wanted.items():
        assigned[topic_id] = {**assigned.get(topic_id, {}), **dict.fromkeys(free, goal.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if awaited else MemberState.STABLE
    return member.at_epoch(goal.epoch)._replace(state=state, assigned=assigned, revoking={})


def _is_free(member: ConsumerMember, goal: Goal, topic_id: bytes, partition: int) -> bool:
    """Nobody has it, or the member itself was asked to give it up and may keep it after all."""
    return partition in member.revoking.get(topic_id, {}) or goal.owner(topic_id, partition) is None
