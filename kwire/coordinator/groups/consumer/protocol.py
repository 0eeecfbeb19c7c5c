"""ConsumerGroupHeartbeat (KIP-848), and the timers of consumer groups.

With this request members join, report their partitions, get their assignment, and leave. A member must send a heartbeat
within its session timeout, and revoke partitions within its rebalance timeout. Otherwise it is fenced: removed from the
group, whose epoch is bumped. Timers are soft state; they are restarted when the log is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.uuids import uuid_to_text
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.consumer import records as consumer_records
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from kwire.coordinator.groups.consumer.member_update import MemberUpdate, assignor_names, group_setting
from kwire.coordinator.groups.consumer.migration import Migration
from kwire.coordinator.groups.consumer.reconcile import Reported
from kwire.coordinator.groups.consumer.records import ResolvedRegex
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import Groups, GroupSettings
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result
from kwire.coordinator.runtime.timers import Timers

OWN_MEMBER_ID_SINCE = 1
"""The version of ConsumerGroupHeartbeat from which on members make their own ids (KIP-1082)."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that is invalid whatever the state of the group."""
    epoch = request.member_epoch
    if (version >= OWN_MEMBER_ID_SINCE or epoch > 0 or epoch == LEAVE_EPOCH) and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    for name, text in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is invalid: {epoch}.")
    names = assignor_names(settings)
    if request.server_assignor is not None and request.server_assignor not in names:
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(names)}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


class ConsumerProtocol:
    """ConsumerGroupHeartbeat for all consumer groups of a shard. ``topics`` is replaced with each new image of the
    cluster."""

    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        settings: GroupSettings,
        new_id: Callable[[], str],
        migration: Migration,
        topics: Topics,
    ) -> None:
        self.topics = topics
        self.new_topics_revision = topics.revision
        self._groups = groups
        self._timers = timers
        self._settings = settings
        self._new_id = new_id
        self._migration = migration

    def update_topics(self, topics: Topics, changed: Iterable[str], *, new: bool) -> None:
        """The cluster has changed. Groups that subscribe to one of the ``changed`` topics check their topics with the
        next heartbeat. ``new``: some topics are new, so that regular expressions have to be resolved again."""
        self.topics = topics
        if new:
            self.new_topics_revision = topics.revision
        names = list(changed)
        for group in self._groups:
            downgraded = isinstance(group, ClassicGroup) and group.is_just_downgraded
            affected = downgraded or isinstance(group, ConsumerGroup)
            if not affected or not any(group.is_subscribed_to(name) for name in names):
                continue
            if isinstance(group, ConsumerGroup):
                group.checked_epoch = None
            elif isinstance(group, ClassicGroup):  # due at once: the next operation of the shard fires it
                self._timers.schedule(("downgraded", group.group_id), 0, partial(self._migration.topics_changed, group))

    def group(self, group_id: str) -> ConsumerGroup:
        """The consumer group with this id. Raises GROUP_ID_NOT_FOUND, also for a group of another type."""
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            what = "not found" if group is None else "is not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return group

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        out: Result[ConsumerGroupHeartbeatResponse],
        now: Instant,
    ) -> None:
        """Run one request, which `check_request` has checked, and fill its result. Raises KafkaError."""
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(request, out, now)
            return
        joins = request.member_epoch == 0
        former = self._groups.find(request.group_id)
        group = self._joinable(request.group_id, out) if joins else self.group(request.group_id)
        self.check_room(group, request.member_id)
        reported = _reported(request)
        old = self._sender(group, request, reported, out.records, joins)
        new = _updated(old, request, caller)
        update = MemberUpdate(group, self.topics, self._settings, now, out.records)
        changed = update.subscribe(old, new, self.new_topics_revision)
        member = update.step(new, update.retarget(old, new), reported, subscription_changed=changed)
        out.response = self._response(request, old, member)

        def applied(out: Result[Any], now: Instant) -> None:
            if isinstance(former, ClassicGroup) and not self._groups.holds(former):
                self._migration.dissolve(former, out)
                self._start_sessions(request.group_id, now)
                for late in (former.members[member_id] for member_id in former.unsynced):
                    self.schedule("sync", request.group_id, late.member_id, late.rebalance_timeout_ms, now)
            self.restart_session(request.group_id, member.member_id, now)
            if member != new:
                self._watch_revocation(request.group_id, member, now)
            if update.needs_regex_refresh:
                self.refresh_regexes(request.group_id, caller, now)

        perform(out, now, applied)

    def _joinable(self, group_id: str, out: Result[Any]) -> ConsumerGroup:
        """The group to join: the present one, a new one, or the upgrade of a classic group."""
        group = self._groups.find(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            out.records.extend(group.tombstones())
            return ConsumerGroup(group_id)
        return self._migration.upgrade(group, self.topics, out.records)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raises GROUP_MAX_SIZE_REACHED if the group is full and the member is not in it."""
        limit = self._settings.group_consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            message = f"The group has reached its maximum size of {limit}."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _sender(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        reported: Reported,
        records: list[CoordinatorRecord],
        joins: bool,
    ) -> ConsumerMember:
        """The member as the group knows it, or a new one."""
        member_id = request.member_id or self.new_member_id()
        if request.instance_id is not None and joins:
            return self.static_member(group, member_id, request.instance_id, records, classic=False)
        if request.instance_id is not None:
            member = self.static_owner(group, member_id, request.instance_id)
        else:
            member = group.members.get(member_id) or (ConsumerMember(member_id) if joins else group.member(member_id))
        _check_epoch(member, request.member_epoch, reported)
        return member

    def new_member_id(self) -> str:
        """A member id for a client that has not made its own, in Kafka's form."""
        return uuid_to_text(bytes.fromhex(self._new_id().replace("-", "")))

    def static_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str, records: list[CoordinatorRecord], *, classic: bool
    ) -> ConsumerMember:
        """A static member that joins: a new one, or the successor of the member with its group instance id. Raises
        UNRELEASED_INSTANCE_ID if that member has not left."""
        predecessor = group.static_member(instance_id)
        if predecessor is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not classic and not predecessor.uses_classic and predecessor.epoch != STATIC_LEAVE_EPOCH:
            message = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by member {predecessor.member_id}."
            )
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        member = predecessor._replace(member_id=member_id, epoch=0, previous_epoch=0)
        group_id, written = group.group_id, consumer_records
        records.extend(written.member_tombstones(group_id, predecessor.member_id))
        records.append(written.subscription(group_id, member))
        records.append(written.target(group_id, member_id, group.target_of(predecessor)))
        records.append(written.current(group_id, member))
        return member

    def static_owner(self, group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        """The member with a group instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its member id
        differs."""
        member = group.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            message = (
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
            )
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, message)
        return member

    def _response(
        self, request: ConsumerGroupHeartbeatRequest, old: ConsumerMember, member: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """The response. It contains the assignment if the member joins, if its request has all fields set, or if the
        assignment has changed. It also contains it if the member is still in its previous epoch because it has lost the
        response with the change (Apache Kafka then never sends it)."""
        is_full_request = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._setting(
                request.group_id, "consumer.heartbeat.interval.ms", self._settings.group_consumer_heartbeat_interval_ms
            ),
        )
        changed = old.assigned is not member.assigned and _partitions(old.assigned) != _partitions(member.assigned)
        lost_response = request.member_epoch != old.epoch
        if request.member_epoch == 0 or is_full_request or changed or lost_response:
            topics = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
            ]
            response.assignment = Assignment(topic_partitions=topics)
        return response

    def _setting(self, group_id: str, name: str, default: int) -> int:
        return group_setting(self.topics, group_id, name, default)

    # -- departures ----------------------------------------------------------------------------------------------------

    def _leave(
        self,
        request: ConsumerGroupHeartbeatRequest,
        out: Result[ConsumerGroupHeartbeatResponse],
        now: Instant,
    ) -> None:
        group = self.group(request.group_id)
        out.response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            self.fence(group, [group.member(request.member_id)], out, now)
            return
        member = self.static_owner(group, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_EPOCH:
            self.fence(group, [member], out, now)
            return
        kept: OwnedPartitions = {
            topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()
        }
        away = member._replace(epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking={})
        out.records.append(consumer_records.current(group.group_id, away))

    def fence(self, group: ConsumerGroup, members: list[ConsumerMember], out: Result[Any], now: Instant) -> None:
        """Remove members. If only members of the classic protocol are left, downgrade the group (if the policy
        allows)."""
        if not members:
            return
        gone = [member.member_id for member in members]
        if self._migration.may_downgrade(group, gone):
            self._migration.downgrade(group, gone, self.topics, out, now, self.forget)
            return
        group_id, written = group.group_id, consumer_records
        for member_id in gone:
            out.records.extend(written.member_tombstones(group_id, member_id))
        topics, patterns = group.without(members)
        out.records.extend(written.regex_tombstone(group_id, pattern) for pattern in patterns)
        out.records.append(written.group_epoch(group_id, group.epoch + 1, self.topics.metadata_hash(topics)))

        def applied(out: Result[Any], now: Instant) -> None:
            for member_id in gone:
                self._cancel(group_id, member_id)

        out.applied = applied

    # -- timers --------------------------------------------------------------------------------------------------------

    def restart_session(self, group_id: str, member_id: str, now: Instant, timeout_ms: int | None = None) -> None:
        """Restart the session timer of a member."""
        if timeout_ms is None:
            timeout_ms = self._setting(
                group_id, "consumer.session.timeout.ms", self._settings.group_consumer_session_timeout_ms
            )
        self.schedule("session", group_id, member_id, timeout_ms, now)

    def schedule(self, kind: str, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Fence the member after this time unless the timer is cancelled."""
        self._timers.schedule(
            (f"consumer-{kind}", group_id, member_id),
            now.timer_ms + timeout_ms,
            partial(self._overdue, group_id, member_id, None),
        )

    def is_scheduled(self, kind: str, group_id: str, member_id: str) -> bool:
        """Whether the timer is running."""
        return (f"consumer-{kind}", group_id, member_id) in self._timers

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        """Cancel the timer: the member has done in time what it was expected to do."""
        self._timers.cancel((f"consumer-{kind}", group_id, member_id))

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now: Instant) -> None:
        key = ("consumer-rebalance", group_id, member.member_id)
        if member.uses_classic:
            return
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return
        deadline_ms = now.timer_ms + member.rebalance_timeout_ms
        self._timers.schedule(key, deadline_ms, partial(self._overdue, group_id, member.member_id, member.epoch))

    def _overdue(self, group_id: str, member_id: str, epoch: int | None, out: Result[Any], now: Instant) -> None:
        """A deadline of a member has passed: fence it. With an ``epoch``, only if the member is still in that epoch."""
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        member = group.members.get(member_id)
        if member is not None and epoch in (None, member.epoch):
            self.fence(group, [member], out, now)

    def _cancel(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "rebalance", "join", "sync"):
            self.cancel(kind, group_id, member_id)

    def forget(self, group: ConsumerGroup) -> None:
        """Stop all timers of a deleted group."""
        for member_id in group.members:
            self._cancel(group.group_id, member_id)
        self._timers.cancel(("consumer-regex", group.group_id))

    def _start_sessions(self, group_id: str, now: Instant) -> None:
        """Start the session timers of a group that was loaded or upgraded."""
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        for member in group.members.values():
            timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
            self.restart_session(group_id, member.member_id, now, timeout_ms)
            self._watch_revocation(group_id, member, now)

    def loaded(self, now: Instant) -> None:
        """The log is loaded: start all sessions."""
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                self._start_sessions(group.group_id, now)

    # -- regular expressions -------------------------------------------------------------------------------------------

    def refresh_regexes(self, group_id: str, caller: Caller, now: Instant) -> None:
        """Resolve the regular expressions of a group after the present operation, not within the heartbeat. They match
        only topics that the sender of the heartbeat may describe."""
        key = ("consumer-regex", group_id)
        if key not in self._timers:
            self._timers.schedule(key, now.timer_ms, partial(self._resolve, group_id, caller))

    def _resolve(self, group_id: str, caller: Caller, out: Result[Any], now: Instant) -> None:
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        topics = self.topics
        matching = {pattern: topics.matching(pattern) for pattern in group.regexes}
        if caller.describable is not None:
            describable = frozenset(caller.describable(sorted(frozenset().union(*matching.values()))))
            matching = {pattern: names & describable for pattern, names in matching.items()}
        resolved = {pattern: ResolvedRegex(names, topics.revision, now.wall_ms) for pattern, names in matching.items()}
        written = consumer_records
        out.records.extend(written.regex(group_id, pattern, result) for pattern, result in resolved.items())
        bump = any(
            result.topics != group.resolved.get(pattern, ResolvedRegex()).topics for pattern, result in resolved.items()
        )
        names = set(group.names).union(*(result.topics for result in resolved.values()))
        metadata_hash = topics.metadata_hash(names)
        if bump or metadata_hash != group.metadata_hash:
            group.checked_epoch = group.epoch + 1
            out.records.append(written.group_epoch(group_id, group.epoch + 1, metadata_hash))


def perform(out: Result[Any], now: Instant, applied: Callable[[Result[Any], Instant], None]) -> None:
    """Call ``applied`` once the records are applied, or at once if there are none."""
    if out.records:
        out.applied = applied
    else:
        applied(out, now)


def _check_epoch(member: ConsumerMember, epoch: int, reported: Reported) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the epoch is the member's. The previous epoch is accepted, too, if the response
    with the newer one may have been lost and the member owns no partition outside its assignment."""
    if epoch in (0, member.epoch):
        return
    lost_response = epoch < member.epoch and epoch == member.previous_epoch and _is_part_of(reported, member.assigned)
    if not lost_response:
        message = (
            f"Epoch {epoch} is not the member's epoch {member.epoch}. It must revoke all its partitions and join again."
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_part_of(reported: Reported, assigned: OwnedPartitions) -> bool:
    if reported is None:
        return False
    return all(
        topic_id in assigned and all(partition in assigned[topic_id] for partition in partitions)
        for topic_id, partitions in reported
    )


def _partitions(owned: OwnedPartitions) -> dict[bytes, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in owned.items()}


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported:
    if request.topic_partitions is None:
        return None
    return [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]


def _updated(old: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with the contents of its request. Fields that the request leaves out stay as they were."""
    names = request.subscribed_topic_names
    return old._replace(
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topics=old.topics if names is None else tuple(sorted(set(names))),
        regex=old.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        assignor=old.assignor if request.server_assignor is None else request.server_assignor,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
