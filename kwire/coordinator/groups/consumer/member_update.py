"""The effect of one member's request on its group: subscription, group epoch, target assignment, reconciliation.

ConsumerGroupHeartbeat (`consumer.protocol`) and JoinGroup of classic members (`consumer.classic`) share it. A
`MemberUpdate` reads the group and collects records. The group changes when the records are applied.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kwire.coordinator.assignors import ASSIGNORS, GroupSpec, MemberSpec, Partitions
from kwire.coordinator.groups.consumer import records as consumer_records
from kwire.coordinator.groups.consumer.group import NOTHING, ConsumerGroup
from kwire.coordinator.groups.consumer.member import ConsumerMember
from kwire.coordinator.groups.consumer.reconcile import Goal, Reported, reconcile
from kwire.coordinator.groups.consumer.topics import Topics, compile_regex
from kwire.coordinator.runtime.java_hash import hash_map_order, timeline_map_order

if TYPE_CHECKING:
    from kwire.coordinator.groups.group import GroupSettings
    from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant

REGEX_PAUSE_MS: Final = 10_000
"""The minimum time between two resolutions of a group's regular expressions."""


class RegexChange(Enum):
    """How a request changes the member's regular expression: not at all, to one that is resolved already, or to one
    that still has to be resolved."""

    NONE = "none"
    TO_RESOLVE = "to resolve"
    KNOWN = "known"


class MemberUpdate:
    """One request of one member. In its methods, ``old`` is the member as the log has it (with defaults if it is new),
    and ``new`` the member with the contents of the request."""

    def __init__(
        self,
        group: ConsumerGroup,
        topics: Topics,
        settings: GroupSettings,
        now: Instant,
        records: list[CoordinatorRecord],
    ) -> None:
        self.group = group
        self.records = records
        self.needs_regex_refresh = False
        self._topics = topics
        self._settings = settings
        self._now = now
        self.epoch = group.epoch

    def subscribe(self, old: ConsumerMember, new: ConsumerMember, new_topics_revision: int) -> bool:
        """Update the member's subscription, and bump the group epoch if the subscription or its topics have changed.
        Returns whether the member's topics may have changed. Raises INVALID_REGULAR_EXPRESSION."""
        if old != new:
            self.records.append(consumer_records.subscription(self.group.group_id, new))
        names_changed = old.topics != new.topics
        change = self._change_regex(old, new, new_topics_revision)
        bump = names_changed or change is RegexChange.KNOWN
        group = self.group
        if bump or group.checked_epoch is None or group.epoch < group.checked_epoch:
            self._check_topics(old, new, bump)
        return names_changed or change is not RegexChange.NONE

    def _check_topics(self, old: ConsumerMember, new: ConsumerMember, bump: bool) -> None:
        group = self.group
        metadata_hash = self._topics.metadata_hash(group.subscribed_topics(old, new))
        if bump or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(consumer_records.group_epoch(group.group_id, self.epoch, metadata_hash))
        group.checked_epoch = self.epoch
        if group.has_partition_metadata:
            self.records.append(consumer_records.partition_metadata_tombstone(group.group_id))

    def _change_regex(self, old: ConsumerMember, new: ConsumerMember, new_topics_revision: int) -> RegexChange:
        group, change, is_new_pattern = self.group, RegexChange.NONE, False
        if old.regex != new.regex:
            change = RegexChange.TO_RESOLVE
            if old.regex and group.regexes.get(old.regex, 0) == 1:
                self.records.append(consumer_records.regex_tombstone(group.group_id, old.regex))
            if new.regex and not group.regexes.get(new.regex):
                compile_regex(new.regex)
                is_new_pattern = True
            elif not new.regex or new.regex in group.resolved:
                change = RegexChange.KNOWN
        if is_new_pattern or group.regexes:
            self.needs_regex_refresh = self._is_regex_stale(old, new, is_new_pattern, new_topics_revision)
        return change

    def _is_regex_stale(
        self, old: ConsumerMember, new: ConsumerMember, is_new_pattern: bool, new_topics_revision: int
    ) -> bool:
        """Whether the regular expressions have to be resolved: a new expression, new topics, or the refresh interval is
        over."""
        group = self.group
        last = next(iter(group.resolved.values()), None)
        if last is not None and self._now.wall_ms <= last.timestamp_ms + REGEX_PAUSE_MS:
            return False
        patterns = group.patterns(old, new)
        if not patterns:
            return False
        if is_new_pattern or last is None or len(patterns) != len(group.resolved):
            return True
        refresh_ms = self._settings.group_consumer_regex_refresh_interval_ms
        return last.version < new_topics_revision or self._now.wall_ms > last.timestamp_ms + refresh_ms

    # -- the target assignment -----------------------------------------------------------------------------------------

    def retarget(self, old: ConsumerMember, new: ConsumerMember) -> tuple[int, Partitions]:
        """The epoch of the target assignment and the member's part of it. If the group epoch is newer, a new assignment
        is computed, but not more often than every `group.consumer.assignment.interval.ms`."""
        group = self.group
        if group.assignment_epoch >= self.epoch or not self._may_assign():
            return group.assignment_epoch, group.target_of(new)
        return self.epoch, self._assign(old, new)

    def _may_assign(self) -> bool:
        last_ms = self.group.assignment_ms
        interval_ms = group_setting(
            self._topics,
            self.group.group_id,
            "consumer.assignment.interval.ms",
            self._settings.group_consumer_assignment_interval_ms,
        )
        return not last_ms or not interval_ms or self._now.wall_ms >= last_ms + interval_ms

    def _assign(self, old: ConsumerMember, new: ConsumerMember) -> Partitions:
        group, written = self.group, consumer_records
        before = {member_id: group.target.get(member_id, NOTHING) for member_id in group.members}
        members = dict(group.members)
        predecessor = None if new.instance_id is None else group.static_ids.get(new.instance_id)
        before[new.member_id] = group.target_of(new)
        if predecessor is not None and predecessor != new.member_id:
            members.pop(predecessor, None)
        members[new.member_id] = new
        assignor = group.preferred_assignor(old, new) or assignor_names(self._settings)[0]
        assign = ASSIGNORS.get(assignor, ASSIGNORS["uniform"])
        assignment = assign(self._spec(members, before, group.is_homogeneous(old, new)))
        for member_id in members:
            part = assignment.get(member_id, NOTHING)
            if not _same(part, before[member_id]):
                self.records.append(written.target(group.group_id, member_id, part))
        self.records.append(written.target_epoch(group.group_id, self.epoch, self._now.wall_ms))
        return assignment.get(new.member_id, NOTHING)

    def _spec(self, members: dict[str, ConsumerMember], before: dict[str, Partitions], homogeneous: bool) -> GroupSpec:
        """The input of the assignor. Its members are in the order of Kafka's hash maps."""
        known = [member_id for member_id in self.group.members if member_id in members]
        topics_of: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id in hash_map_order([*timeline_map_order(known), *members]):
            member = members[member_id]
            wanted = member.topics, member.regex
            topic_ids = topics_of.get(wanted)
            if topic_ids is None:
                topic_ids = topics_of[wanted] = self.topics_of(member)
            specs[member_id] = MemberSpec(topic_ids, before[member_id], member.instance_id)
        everything = frozenset().union(*topics_of.values())
        return GroupSpec(specs, self._topics.partition_counts(sorted(everything)), homogeneous)

    def topics_of(self, member: ConsumerMember) -> frozenset[bytes]:
        """The ids of the existing topics that a member subscribes to."""
        resolved = self.group.resolved.get(member.regex) if member.regex else None
        names = member.topics if resolved is None else (*member.topics, *sorted(resolved.topics))
        return self._topics.ids(names)

    # -- reconciliation ------------------------------------------------------------------------------------------------

    def step(
        self,
        member: ConsumerMember,
        target: tuple[int, Partitions],
        reported: Reported,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        """The member after one step towards its target assignment."""
        epoch, assigned = target
        if not subscription_changed and member.is_reconciled_to(epoch):
            return member
        owners = self.group.owners

        def owner(topic_id: bytes, partition: int) -> str | None:
            return owners.get(topic_id, {}).get(partition)

        goal = Goal(epoch, assigned, self.topics_of(member), owner, reported, subscription_changed)
        stepped = reconcile(member, goal)
        if stepped != member:
            self.records.append(consumer_records.current(self.group.group_id, stepped))
        return stepped


def group_setting(topics: Topics, group_id: str, name: str, default: int) -> int:
    """A dynamic property of a group, or ``default`` (the broker's) if it is not set."""
    text = topics.group_config(group_id).get(name)
    return default if text is None else int(text)


def _same(one: Partitions, other: Partitions) -> bool:
    return one == other or {topic_id: sorted(partitions) for topic_id, partitions in one.items() if partitions} == {
        topic_id: sorted(partitions) for topic_id, partitions in other.items() if partitions
    }


def assignor_names(settings: GroupSettings) -> list[str]:
    """The assignors that members may request, the default first. Kafka's class names are accepted, too."""
    return _short_names(tuple(settings.group_consumer_assignors))


@lru_cache(maxsize=4)  # called by every heartbeat
def _short_names(configured: tuple[str, ...]) -> list[str]:
    short = [name.rpartition(".")[2].removesuffix("Assignor").lower() for name in configured]
    return [name for name in short if name in ASSIGNORS] or list(ASSIGNORS)
