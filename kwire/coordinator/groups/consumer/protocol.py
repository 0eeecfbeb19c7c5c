"""ConsumerGroupHeartbeat (KIP-848): members join, report, learn what to own, and leave; and what time does to them.

One request does it all. A member is heard of within its session timeout, and gives up what it is asked to within its
rebalance timeout, or it is fenced: out of the group, which then has another epoch. Timers are soft: they start anew
when a leadership begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

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
from kwire.coordinator.groups.consumer.member_update import Advance, assignor_names, group_setting
from kwire.coordinator.groups.consumer.migration import Migration
from kwire.coordinator.groups.consumer.reconcile import Reported
from kwire.coordinator.groups.consumer.records import ResolvedRegex
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import Groups, GroupSettings
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result
from kwire.coordinator.runtime.timers import Timers

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage

OWN_MEMBER_ID_SINCE = 1
"""The version of ConsumerGroupHeartbeat in which members make their ids themselves (KIP-1082)."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what no group could make sense of."""
    epoch = request.member_epoch
    if (version >= OWN_MEMBER_ID_SINCE or epoch > 0 or epoch == LEAVE_EPOCH) and not request.member_id.strip():
        raise _invalid("The member id must not be empty.")
    if not request.group_id.strip():
        raise _invalid("The group id must not be empty.")
    for name, text in (("instance id", request.instance_id), ("rack id", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"The {name} must not be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("Who joins must give a rebalance timeout.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("Who joins owns no partitions, and must say so.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Who joins must subscribe, to topic names or by a regular expression.")
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("Only a member with an instance id can leave for a while.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"There is no member epoch {epoch}.")
    names = assignor_names(settings)
    if request.server_assignor is not None and request.server_assignor not in names:
        message = f"There is no assignor {request.server_assignor} here, only {', '.join(names)}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


class ConsumerProtocol:
    """The operations on one shard's consumer groups. ``topics`` is replaced with each new image of the cluster."""

    def __init__(
        self, groups: Groups, timers: Timers, settings: GroupSettings, new_id: Callable[[], str], migration: Migration
    ) -> None:
        self.topics: Topics | None = None
        self.new_topics_revision = -1
        self._groups = groups
        self._timers = timers
        self._settings = settings
        self._new_id = new_id
        self._migration = migration

    def see_topics(self, image: ClusterImage, changed: Iterable[str], *, new: bool) -> None:
        """The cluster has changed: groups that subscribe to one of these topics look at them with their next
        heartbeat; ``new``: there may be names that were never matched against patterns."""
        self.topics = Topics(image)
        if new or self.new_topics_revision < 0:
            self.new_topics_revision = image.revision
        names = list(changed)
        for group in self._groups:
            unled = isinstance(group, ClassicGroup) and group.is_unled
            looks = unled or isinstance(group, ConsumerGroup)
            if not looks or not any(group.is_subscribed_to(name) for name in names):
                continue
            if isinstance(group, ConsumerGroup):
                group.checked_epoch = None
            elif isinstance(group, ClassicGroup):  # as soon as anybody is heard of
                self._timers.schedule(("unled", group.group_id), 0, partial(self._migration.topics_changed, group))

    @property
    def cluster(self) -> Topics:
        """The newest snapshot. Raises COORDINATOR_NOT_AVAILABLE before there is one."""
        if self.topics is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.topics

    def group(self, group_id: str) -> ConsumerGroup:
        """Raises GROUP_ID_NOT_FOUND, also for a group of another type."""
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            what = "not found" if group is None else "not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is {what}.")
        return group

    # --- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        out: Result[ConsumerGroupHeartbeatResponse],
        now: Instant,
    ) -> None:
        """Fill the result; raises KafkaError for what the member has done wrong. `check_request` came before."""
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(request, out, now)
            return
        joins = request.member_epoch == 0
        former = self._groups.find(request.group_id)
        group = self._joinable(request.group_id, out) if joins else self.group(request.group_id)
        self.check_room(group, request.member_id)
        reported = _reported(request)
        old = self._sender(group, request, reported, out.records, joins)
        new = _wanted(old, request, caller)
        advance = Advance(group, self.cluster, self._settings, now, out.records)
        changed = advance.subscribe(old, new, self.new_topics_revision)
        member = advance.step(new, advance.retarget(old, new), reported, subscription_changed=changed)
        out.answer = self._answer(request, old, member)

        def applied(out: Result[Any], now: Instant) -> None:
            if isinstance(former, ClassicGroup) and not self._groups.holds(former):
                self._migration.dissolve(former, out)
                self._start_sessions(request.group_id, now)
                for late in (former.members[member_id] for member_id in former.unsynced):
                    self.schedule("sync", request.group_id, late.member_id, late.rebalance_timeout_ms, now)
            self.heard_of(request.group_id, member.member_id, now)
            if member != new:
                self._watch_revocation(request.group_id, member, now)
            if advance.needs_regex_refresh:
                self.refresh_regexes(request.group_id, now)

        perform(out, now, applied)

    def _joinable(self, group_id: str, out: Result[Any]) -> ConsumerGroup:
        """The group to join: new, or a classic one that is taken over."""
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
        return self._migration.upgrade(group, self.cluster, out.records)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raises GROUP_MAX_SIZE_REACHED for one too many."""
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
        """As Kafka makes them for members that do not."""
        return uuid_to_text(bytes.fromhex(self._new_id().replace("-", "")))

    def static_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str, records: list[CoordinatorRecord], *, classic: bool
    ) -> ConsumerMember:
        """A static member that joins: new, or in the place of its predecessor. Raises UNRELEASED_INSTANCE_ID while
        that one has not left."""
        predecessor = group.static_member(instance_id)
        if predecessor is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not classic and not predecessor.speaks_classic and predecessor.epoch != STATIC_LEAVE_EPOCH:
            message = f"Instance id {instance_id} is still held by member {predecessor.member_id}."
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        member = predecessor._replace(member_id=member_id, epoch=0, previous_epoch=0)
        group_id, written = group.group_id, consumer_records
        records.extend(written.member_tombstones(group_id, predecessor.member_id))
        records.append(written.subscription(group_id, member))
        records.append(written.target(group_id, member_id, group.target_of(predecessor)))
        records.append(written.current(group_id, member))
        return member

    def static_owner(self, group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        """The member of an instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if it is another one."""
        member = group.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is not known.")
        if member.member_id != member_id:
            message = f"Instance id {instance_id} is held by member {member.member_id}, not by {member_id}."
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, message)
        return member

    def _answer(
        self, request: ConsumerGroupHeartbeatRequest, old: ConsumerMember, member: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """The assignment is told to who joins, to who tells everything about itself, and where it has changed; also to
        who is still in its last epoch, and has not heard of the change (there Apache Kafka says nothing, for ever)."""
        tells_all = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        answer = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._setting(
                request.group_id, "consumer.heartbeat.interval.ms", self._settings.group_consumer_heartbeat_interval_ms
            ),
        )
        changed = old.assigned is not member.assigned and _partitions(old.assigned) != _partitions(member.assigned)
        lost_answer = request.member_epoch != old.epoch
        if request.member_epoch == 0 or tells_all or changed or lost_answer:
            topics = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
            ]
            answer.assignment = Assignment(topic_partitions=topics)
        return answer

    def _setting(self, group_id: str, name: str, default: int) -> int:
        return default if self.topics is None else group_setting(self.topics, group_id, name, default)

    # --- departures ------------------------------------------------------------------------------------------------

    def _leave(
        self,
        request: ConsumerGroupHeartbeatRequest,
        out: Result[ConsumerGroupHeartbeatResponse],
        now: Instant,
    ) -> None:
        group = self.group(request.group_id)
        out.answer = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
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
        """Members are out. Where only members of the classic protocol are left, the group is classic again."""
        if not members:
            return
        gone = [member.member_id for member in members]
        if self._migration.may_downgrade(group, gone):
            self._migration.downgrade(group, gone, self.cluster, out, now, self.forget)
            return
        group_id, written = group.group_id, consumer_records
        for member_id in gone:
            out.records.extend(written.member_tombstones(group_id, member_id))
        topics, patterns = group.without(members)
        out.records.extend(written.regex_tombstone(group_id, pattern) for pattern in patterns)
        out.records.append(written.group_epoch(group_id, group.epoch + 1, self.cluster.metadata_hash(topics)))

        def applied(out: Result[Any], now: Instant) -> None:
            for member_id in gone:
                self._cancel(group_id, member_id)

        out.applied = applied

    # --- time ------------------------------------------------------------------------------------------------------

    def heard_of(self, group_id: str, member_id: str, now: Instant, timeout_ms: int | None = None) -> None:
        """Start the session of a member anew."""
        if timeout_ms is None:
            timeout_ms = self._setting(
                group_id, "consumer.session.timeout.ms", self._settings.group_consumer_session_timeout_ms
            )
        self.schedule("session", group_id, member_id, timeout_ms, now)

    def schedule(self, kind: str, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """The member is fenced unless something cancels this in time."""
        self._timers.schedule(
            (f"consumer-{kind}", group_id, member_id),
            now.timer_ms + timeout_ms,
            partial(self._overdue, group_id, member_id, None),
        )

    def is_scheduled(self, kind: str, group_id: str, member_id: str) -> bool:
        """Whether such a timer runs."""
        return (f"consumer-{kind}", group_id, member_id) in self._timers

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        """The member has done what it was waited for."""
        self._timers.cancel((f"consumer-{kind}", group_id, member_id))

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now: Instant) -> None:
        key = ("consumer-rebalance", group_id, member.member_id)
        if member.speaks_classic:
            return
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return
        deadline_ms = now.timer_ms + member.rebalance_timeout_ms
        self._timers.schedule(key, deadline_ms, partial(self._overdue, group_id, member.member_id, member.epoch))

    def _overdue(self, group_id: str, member_id: str, epoch: int | None, out: Result[Any], now: Instant) -> None:
        """A deadline of a member has passed (that for giving up counts only in its epoch)."""
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
        """The group is gone: none of its timers is needed."""
        for member_id in group.members:
            self._cancel(group.group_id, member_id)
        self._timers.cancel(("consumer-regex", group.group_id))

    def _start_sessions(self, group_id: str, now: Instant) -> None:
        """All members of a group that is new here (loaded, or classic before) are heard of now."""
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        for member in group.members.values():
            timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
            self.heard_of(group_id, member.member_id, now, timeout_ms)
            self._watch_revocation(group_id, member, now)

    def loaded(self, now: Instant) -> None:
        """The log is read: sessions start."""
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                self._start_sessions(group.group_id, now)

    # --- regular expressions ----------------------------------------------------------------------------------------

    def refresh_regexes(self, group_id: str, now: Instant) -> None:
        """Look at the patterns of a group as the next thing: not within the heartbeat, which only asks for it."""
        key = ("consumer-regex", group_id)
        if key not in self._timers:
            self._timers.schedule(key, now.timer_ms, partial(self._resolve, group_id))

    def _resolve(self, group_id: str, out: Result[Any], now: Instant) -> None:
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup) or self.topics is None:
            return
        topics = self.topics
        resolved = {
            pattern: ResolvedRegex(topics.matching(pattern), topics.revision, now.wall_ms) for pattern in group.regexes
        }
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
    """Go on once the records are applied: at once if there are none."""
    if out.records:
        out.applied = applied
    else:
        applied(out, now)


def _check_epoch(member: ConsumerMember, epoch: int, reported: Reported) -> None:
    """Raises FENCED_MEMBER_EPOCH unless it is the member's, or the one before it where the answer with the newer one
    may have been lost: then the member owns nothing that it should not."""
    if epoch in (0, member.epoch):
        return
    lost_answer = epoch < member.epoch and epoch == member.previous_epoch and _is_part_of(reported, member.assigned)
    if not lost_answer:
        message = f"Epoch {epoch} is not that of the member, {member.epoch}: it must give up all and join again."
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


def _wanted(old: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member as its request wants it: what a request leaves out stays."""
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
