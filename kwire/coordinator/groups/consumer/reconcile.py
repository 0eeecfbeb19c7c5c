"""Reconciliation of a member: from its current assignment to its target assignment, one step at a time.

A member first revokes partitions, then gets those that other members have revoked. This is a pure function of the
member and of the partitions that it reports, and never lets two members own one partition. UNREVOKED_PARTITIONS lasts
until a heartbeat no longer reports the partitions to revoke; until then the member stays in its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.assignors.model import Partitions
from kwire.coordinator.groups.consumer.member import ConsumerMember, MemberState, OwnedPartitions

Reported = Sequence[tuple[bytes, Sequence[int]]] | None
"""The partitions that a heartbeat reports as owned, by topic id. None: the heartbeat does not report them."""


class Goal(NamedTuple):
    """The target of a member and the facts that decide how far it gets.

    ``topics``: the ids of the topics that it subscribes to now. ``owner``: returns the owner of a partition, or None.
    ``subscription_changed``: topics that it no longer subscribes to are revoked at once, even if the target assignment
    is older.
    """

    epoch: int
    target: Partitions
    topics: Collection[bytes]
    owner: Callable[[bytes, int], str | None]
    reported: Reported
    subscription_changed: bool


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after one step; the same object if nothing changes. Raises FENCED_MEMBER_EPOCH if its state in the log
    is unknown to this version."""
    if member.state is MemberState.STABLE and member.epoch == goal.epoch:
        return _drop_unsubscribed(member, goal) if goal.subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(member.revoking, goal.reported):
        return _drop_unsubscribed(member, goal) if goal.subscription_changed else member
    if member.state is MemberState.UNKNOWN and (goal.reported is None or goal.reported):
        message = "The member's state is unknown. It must revoke all its partitions and join again."
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return _towards(member, goal)


def _still_owns(revoking: Mapping[bytes, Mapping[int, int]], reported: Reported) -> bool:
    """Whether the member still owns one of these partitions. If it has not reported its partitions, it may."""
    if reported is None:
        return True
    return any(partition in revoking.get(topic_id, {}) for topic_id, partitions in reported for partition in partitions)


def _drop_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Revoke topics that the member no longer subscribes to, whatever the target assignment."""
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
    """One step towards the target assignment."""
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
    """Whether a partition has no owner, or was to be revoked by this member, which may keep it after all."""
    return partition in member.revoking.get(topic_id, {}) or goal.owner(topic_id, partition) is None
