"""ShareGroupHeartbeat (KIP-932), and the sessions of share groups' members.

With this request members join with their subscription, get their partitions, and leave. A member must send a heartbeat
within its session timeout; otherwise it is removed from the group, whose epoch is bumped.

Only partitions that the share coordinators know are assigned. A heartbeat that finds others records that they are being
initialised, and returns the request for the share coordinators (`ShareHeartbeat.initialize`); it does not wait for the
response, which comes by `ShareProtocol.initialized`. The next heartbeat then assigns the partitions. What was not
answered is sent again after `group.share.initialize.retry.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.delete_share_group_state_request import DeleteShareGroupStateRequest, DeleteStateData
from kwire.codec.messages.delete_share_group_state_request import PartitionData as ForgottenPartition
from kwire.codec.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.codec.messages.share_group_heartbeat_response import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupCounters, Groups, GroupSettings
from kwire.coordinator.groups.share import records as share_records
from kwire.coordinator.groups.share.assignor import ShareMemberSpec, assign_simple
from kwire.coordinator.groups.share.group import ShareGroup
from kwire.coordinator.groups.share.member import LEAVE_EPOCH, NOTHING, ShareMember
from kwire.coordinator.groups.share.settings import ShareSettings, settings_of
from kwire.coordinator.groups.share.states import NamedPartitions, Partitions
from kwire.coordinator.runtime.java_hash import timeline_map_order
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result
from kwire.coordinator.runtime.timers import Timers

_FROM_CONFIG = -1
"""The start offset of new partitions: the share coordinators' clients choose it by `share.auto.offset.reset`."""


class ShareHeartbeat(NamedTuple):
    """The response to a heartbeat, and the request for the share coordinators if partitions have to be initialised."""

    response: ShareGroupHeartbeatResponse
    initialize: InitializeShareGroupStateRequest | None = None


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST for a request that is invalid whatever the state of the group."""
    named = (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id))
    for name, text in named:
        if text is not None and not text.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


class ShareProtocol:
    """ShareGroupHeartbeat for all share groups of a shard. ``topics`` is replaced with each new image of the
    cluster."""

    def __init__(
        self, groups: Groups, timers: Timers, settings: GroupSettings, counters: GroupCounters, topics: Topics
    ) -> None:
        self.topics = topics
        self._groups = groups
        self._timers = timers
        self._settings = settings
        self._counters = counters

    def update_topics(self, topics: Topics, changed: Iterable[str]) -> None:
        """The cluster has changed. Groups with members that subscribe to one of the ``changed`` topics check their
        topics with the next heartbeat."""
        self.topics = topics
        names = list(changed)
        for group in self._groups:
            if isinstance(group, ShareGroup) and not group.topics.isdisjoint(names):
                group.checked_epoch = None

    def group(self, group_id: str, kind: str = "Group") -> ShareGroup:
        """The share group with this id. Raises GROUP_ID_NOT_FOUND, also for a group of another type. ``kind``: what the
        message calls a group that does not exist."""
        group = self._groups.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return group

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, out: Result[ShareHeartbeat], now: Instant
    ) -> None:
        """Run one request, which `check_request` has checked, and fill its result. Raises KafkaError."""
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(request, out)
            return
        group_id, member_id, joins = request.group_id, request.member_id, request.member_epoch == 0
        if joins and self._groups.find(group_id) is None:
            group = ShareGroup(group_id)
        else:
            group = self.group(group_id, "Share group")
        self._check_room(group, member_id)
        old = group.members.get(member_id, ShareMember(member_id)) if joins else group.member(member_id)
        _check_epoch(old, request.member_epoch)
        settings = settings_of(group_id, self.topics, self._settings)
        new = _updated(old, request, caller)
        members = {**group.members, member_id: new}
        epoch, bumped = self._bump(group, old, new, members, out.records)
        target_epoch, target = self._retarget(group, epoch, members, member_id, settings, now, out.records)
        member = self._reconciled(new, target_epoch, target, bumped)
        if member != new:
            out.records.append(share_records.current(group_id, member))
        initialize = self._initialize(group, epoch, _names(members), now, out.records)
        response = ShareGroupHeartbeatResponse(
            member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
        )
        if joins or request.subscribed_topic_names is not None or member.assigned != old.assigned:
            response.assignment = _assignment(member.assigned)
        out.response = ShareHeartbeat(response, initialize)

        rebalances = epoch > group.epoch

        def applied(out: Result[Any], now: Instant) -> None:
            self._counters.share_rebalances += rebalances
            found = self._groups.find(group_id)
            if isinstance(found, ShareGroup):
                if epoch >= found.epoch:
                    found.checked_epoch = epoch
                found.tried_ms |= dict.fromkeys(_topic_ids(initialize), now.wall_ms)
            self._restart_session(group_id, member_id, settings.session_timeout_ms, now)

        if out.records:
            out.applied = applied
        else:
            applied(out, now)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        limit = self._settings.group_share_max_size
        if len(group.members) >= limit and member_id not in group.members:
            message = f"The share group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _bump(
        self,
        group: ShareGroup,
        old: ShareMember,
        new: ShareMember,
        members: Mapping[str, ShareMember],
        records: list[CoordinatorRecord],
    ) -> tuple[int, bool]:
        """The group epoch, and whether it is bumped: because of the subscription, because partitions have been
        initialised since the last assignment, or because the topics have changed."""
        if new != old or new.member_id not in group.members:
            records.append(share_records.member_metadata(group.group_id, new))
        bump = new.topics != old.topics
        if group.assignment_epoch >= group.epoch:
            bump |= group.is_assignment_behind()
        if not bump and group.is_checked:
            return group.epoch, False
        metadata_hash = self.topics.metadata_hash(_names(members))
        bump |= metadata_hash != group.metadata_hash
        if bump:
            records.append(share_records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        return group.epoch + bump, bump

    def _retarget(
        self,
        group: ShareGroup,
        epoch: int,
        members: Mapping[str, ShareMember],
        member_id: str,
        settings: ShareSettings,
        now: Instant,
        records: list[CoordinatorRecord],
    ) -> tuple[int, Mapping[bytes, frozenset[int]]]:
        """The epoch of the target assignment and what a member has in it. A new one is computed if the group epoch is
        newer, and the last one was computed long enough ago."""
        is_due = group.assignment_ms == 0 or now.wall_ms - group.assignment_ms >= settings.assignment_interval_ms
        if group.assignment_epoch >= epoch or not is_due:
            return group.assignment_epoch, group.target.get(member_id, NOTHING)
        specs = {
            one: ShareMemberSpec(self.topics.ids(members[one].topics), group.target.get(one, NOTHING))
            for one in timeline_map_order(members)
        }
        assignable = {topic: one.partitions for topic, one in group.states.initialized.items()}
        target = assign_simple(specs, assignable)
        for one, partitions in target.items():
            if partitions != group.target.get(one):
                records.append(share_records.target(group.group_id, one, partitions))
        records.append(share_records.target_epoch(group.group_id, epoch, now.wall_ms))
        return epoch, target[member_id]

    def _reconciled(
        self, member: ShareMember, epoch: int, target: Mapping[bytes, frozenset[int]], subscription_changed: bool
    ) -> ShareMember:
        """The member with its target assignment, as far as it subscribes to the topics."""
        if member.epoch == epoch and not subscription_changed:
            return member
        wanted = self.topics.ids(member.topics)
        assigned = {topic: partitions for topic, partitions in target.items() if topic in wanted}
        if member.epoch == epoch:
            return member._replace(assigned=assigned)
        return member._replace(epoch=epoch, previous_epoch=member.epoch, assigned=assigned)

    # -- partitions whose state has to be written ----------------------------------------------------------------------

    def _initialize(
        self, group: ShareGroup, epoch: int, names: Iterable[str], now: Instant, records: list[CoordinatorRecord]
    ) -> InitializeShareGroupStateRequest | None:
        """The request for partitions of subscribed topics that the share coordinators do not know yet, with a record
        that they are being initialised; None if there are none."""
        lacking = {}
        for name in sorted(names):
            topic_id, count = self.topics.id(name), self.topics.partition_count(name)
            if topic_id is None or count is None:
                continue
            partitions = frozenset(range(count)) - self._known(group, topic_id, now)
            if partitions:
                lacking[topic_id] = NamedPartitions(name, partitions)
        if not lacking:
            return None
        records.append(share_records.partition_states(group.group_id, group.states.beginning(lacking)))
        return InitializeShareGroupStateRequest(
            group_id=group.group_id,
            topics=[
                InitializeStateData(
                    topic_id=topic_id,
                    partitions=[
                        PartitionData(partition=index, state_epoch=epoch, start_offset=_FROM_CONFIG)
                        for index in sorted(one.partitions)
                    ],
                )
                for topic_id, one in lacking.items()
            ],
        )

    def _known(self, group: ShareGroup, topic_id: bytes, now: Instant) -> frozenset[int]:
        """The partitions of a topic that are initialised, or that were sent to the share coordinators recently."""
        states, nothing = group.states, NamedPartitions("", frozenset())
        known = states.initialized.get(topic_id, nothing).partitions
        tried_ms = group.tried_ms.get(topic_id)
        interval_ms = self._settings.group_share_initialize_retry_interval_ms
        if tried_ms is not None and now.wall_ms - tried_ms < interval_ms:
            known |= states.initializing.get(topic_id, nothing).partitions
        return known

    def initialized(self, group_id: str, known: Partitions, failed: Partitions, out: Result[bool]) -> None:
        """The share coordinators know some partitions of a group; others could not be initialised."""
        group = self._groups.find(group_id)
        if not isinstance(group, ShareGroup):
            return
        for topic_id in failed:
            group.tried_ms.pop(topic_id, None)
        states = group.states.completed(known).given_up(failed)
        if states != group.states:
            out.records.append(share_records.partition_states(group_id, states))

    def forget_topics(self, topics: Collection[bytes], out: Result[None]) -> None:
        """Topics were deleted: the groups' records name their partitions no more. The share coordinators delete the
        states by themselves."""
        for group in self._groups:
            if isinstance(group, ShareGroup):
                states = group.states.without_topics(topics)
                if states != group.states:
                    out.records.append(share_records.partition_states(group.group_id, states))

    def begin_deletion(self, group_id: str, out: Result[DeleteShareGroupStateRequest]) -> None:
        """The group is about to be deleted: the request by which the share coordinators forget its partitions. It
        names none if the group still has members, which `delete_group` then refuses. Raises GROUP_ID_NOT_FOUND."""
        group = self.group(group_id)
        topics: dict[bytes, set[int]] = {}
        if group.is_empty:
            for known in (group.states.initializing, group.states.initialized):
                for topic_id, one in known.items():
                    topics.setdefault(topic_id, set()).update(one.partitions)
            for topic_id in group.states.deleting:  # an earlier attempt failed
                name = self.topics.name(topic_id)
                topics.setdefault(topic_id, set()).update(range(self.topics.partition_count(name or "") or 0))
            if topics:
                out.records.append(share_records.partition_states(group_id, group.states.ending()))
        out.response = DeleteShareGroupStateRequest(
            group_id=group_id,
            topics=[
                DeleteStateData(
                    topic_id=topic_id, partitions=[ForgottenPartition(partition=index) for index in sorted(partitions)]
                )
                for topic_id, partitions in topics.items()
                if partitions
            ],
        )

    # -- departures ----------------------------------------------------------------------------------------------------

    def _leave(self, request: ShareGroupHeartbeatRequest, out: Result[ShareHeartbeat]) -> None:
        group = self.group(request.group_id)
        self._fence(group, group.member(request.member_id), out)
        out.response = ShareHeartbeat(
            ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        )

    def _fence(self, group: ShareGroup, member: ShareMember, out: Result[Any]) -> None:
        """Remove a member."""
        group_id, member_id, written = group.group_id, member.member_id, share_records
        names = _names({one: each for one, each in group.members.items() if one != member_id})
        out.records.append(written.current_tombstone(group_id, member_id))
        out.records.append(written.target_tombstone(group_id, member_id))
        out.records.append(written.member_tombstone(group_id, member_id))
        out.records.append(written.group_epoch(group_id, group.epoch + 1, self.topics.metadata_hash(names)))

        def applied(out: Result[Any], now: Instant) -> None:
            self._timers.cancel(_session(group_id, member_id))

        out.applied = applied

    # -- timers --------------------------------------------------------------------------------------------------------

    def _restart_session(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        deadline_ms = now.timer_ms + timeout_ms
        self._timers.schedule(_session(group_id, member_id), deadline_ms, partial(self._overdue, group_id, member_id))

    def _overdue(self, group_id: str, member_id: str, out: Result[Any], now: Instant) -> None:
        """A session has ended: remove the member."""
        group = self._groups.find(group_id)
        if isinstance(group, ShareGroup) and member_id in group.members:
            self._fence(group, group.members[member_id], out)

    def forget(self, group: ShareGroup) -> None:
        """Stop all timers of a deleted group."""
        for member_id in group.members:
            self._timers.cancel(_session(group.group_id, member_id))

    def loaded(self, now: Instant) -> None:
        """The log is loaded: start all sessions."""
        for group in self._groups:
            if isinstance(group, ShareGroup):
                timeout_ms = settings_of(group.group_id, self.topics, self._settings).session_timeout_ms
                for member_id in group.members:
                    self._restart_session(group.group_id, member_id, timeout_ms, now)


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("share-session", group_id, member_id)


def _names(members: Mapping[str, ShareMember]) -> frozenset[str]:
    return frozenset(name for member in members.values() for name in member.topics)


def _topic_ids(request: InitializeShareGroupStateRequest | None) -> list[bytes]:
    return [] if request is None else [topic.topic_id for topic in request.topics]


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raises FENCED_MEMBER_EPOCH unless a member sends its epoch, or the previous one because it has lost a
    response."""
    if epoch in (0, member.epoch, member.previous_epoch):
        return
    known = f"than the one known by the group coordinator ({member.epoch})"
    if epoch > member.epoch:
        why = f"a greater member epoch ({epoch}) {known}"
    else:
        why = (
            f"a smaller member epoch ({epoch}) {known}, and it does not match the previous member epoch "
            f"({member.previous_epoch})"
        )
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has {why}. The member must abandon all its partitions and rejoin.",
    )


def _updated(old: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller) -> ShareMember:
    """The member with the contents of its request. Fields that the request leaves out stay as they were."""
    names = request.subscribed_topic_names
    return old._replace(
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        topics=old.topics if names is None else frozenset(names),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )


def _assignment(assigned: Mapping[bytes, frozenset[int]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, partitions=sorted(assigned[topic])) for topic in sorted(assigned)
        ]
    )
