"""StreamsGroupHeartbeat (KIP-1071), and the timers of streams groups.

With this request members join with their topology, report their tasks, get their assignment, and leave. A member must
send a heartbeat within its session timeout, and revoke tasks within its rebalance timeout. Otherwise it is fenced:
removed from the group, whose epoch is bumped. Timers are soft state; they are restarted when the log is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.streams_group_heartbeat_request import KeyValue, StreamsGroupHeartbeatRequest
from kwire.codec.messages.streams_group_heartbeat_response import Status as StatusField
from kwire.codec.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse, TaskIds
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupCounters, Groups, GroupSettings
from kwire.coordinator.groups.streams import records as streams_records
from kwire.coordinator.groups.streams.assignment import new_target
from kwire.coordinator.groups.streams.checks import check_epoch
from kwire.coordinator.groups.streams.endpoints import partitions_by_endpoint
from kwire.coordinator.groups.streams.group import StreamsGroup
from kwire.coordinator.groups.streams.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    MemberState,
    StreamsMember,
    reported_tasks,
)
from kwire.coordinator.groups.streams.settings import StreamsSettings, settings_of
from kwire.coordinator.groups.streams.topology.configured import InternalTopic, Status, TopologyProblem
from kwire.coordinator.groups.streams.update import MemberUpdate
from kwire.coordinator.runtime.java_hash import hash_map_order
from kwire.coordinator.runtime.machine import Caller, Instant, Result
from kwire.coordinator.runtime.timers import Timers


class StreamsHeartbeat(NamedTuple):
    """The response to a heartbeat, and the internal topics that the application needs and that do not exist.
    ``creation_pause_ms``: how long a failed creation is not tried again."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()
    creation_pause_ms: int = 0


class StreamsProtocol:
    """StreamsGroupHeartbeat for all streams groups of a shard. ``topics`` is replaced with each new image of the
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
        """The cluster has changed. Groups whose topology has one of the ``changed`` topics check their topics with the
        next heartbeat."""
        self.topics = topics
        names = list(changed)
        for group in self._groups:
            if isinstance(group, StreamsGroup) and not group.required.isdisjoint(names):
                group.checked_epoch = None

    def group(self, group_id: str, kind: str = "Group") -> StreamsGroup:
        """The streams group with this id. Raises GROUP_ID_NOT_FOUND, also for a group of another type. ``kind``: what
        the message calls a group that does not exist."""
        group = self._groups.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        return group

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: Caller, out: Result[StreamsHeartbeat], now: Instant
    ) -> None:
        """Run one request, which `checks.check_request` has checked, and fill its result. Raises KafkaError."""
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(request, out)
            return
        group_id, joins = request.group_id, request.member_epoch == 0
        group = self._joinable(group_id, out) if joins else self.group(group_id, "Streams group")
        if joins:
            self._check_room(group)
        member_id = request.member_id
        old = group.members.get(member_id, StreamsMember(member_id)) if joins else group.member(member_id)
        check_epoch(old, request)
        settings = settings_of(group_id, self.topics, self._settings)
        update = MemberUpdate(group, request, self.topics, settings, out.records)
        new = _updated(old, request, caller)
        configured = update.bump(old, new)
        if group.is_empty and settings.initial_rebalance_delay_ms:
            self._delay_assignment(group_id, settings.initial_rebalance_delay_ms, now)
        is_delayed = _initial(group_id) in self._timers
        target = update.retarget(new, configured, now.wall_ms, is_delayed=is_delayed)
        member = update.step(new, target, reported_tasks(request))
        if request.shutdown_application:
            group.request_shutdown(member_id)
        problem = configured.problem
        if problem is not None:
            update.statuses.append(problem)
        response = self._response(request, update, old, member, settings)
        pause_ms = 2 * settings.heartbeat_interval_ms
        rebalances = update.epoch > group.epoch
        out.response = StreamsHeartbeat(response, configured.to_create if problem is not None else (), pause_ms)

        def applied(out: Result[Any], now: Instant) -> None:
            self._counters.streams_rebalances += rebalances
            self._restart_session(group_id, member_id, settings.session_timeout_ms, now)
            if member != new:
                self._watch_revocation(group_id, member, now)

        _perform(out, now, applied)

    def _joinable(self, group_id: str, out: Result[Any]) -> StreamsGroup:
        """The group to join: the present one, or a new one, which may replace an empty classic group."""
        group = self._groups.find(group_id)
        if group is None:
            return StreamsGroup(group_id)
        if isinstance(group, ClassicGroup) and group.is_empty:
            out.records.extend(group.tombstones())
            return StreamsGroup(group_id)
        return self.group(group_id)

    def _check_room(self, group: StreamsGroup) -> None:
        """Raises GROUP_MAX_SIZE_REACHED if the group is full. As in Kafka, a member cannot join again then, either."""
        limit = self._settings.group_streams_max_size
        if len(group.members) >= limit:
            message = f"The streams group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _response(
        self,
        request: StreamsGroupHeartbeatRequest,
        update: MemberUpdate,
        old: StreamsMember,
        member: StreamsMember,
        settings: StreamsSettings,
    ) -> StreamsGroupHeartbeatResponse:
        """The response. It contains the tasks if the member joins or if they have changed. It also contains them if the
        member is still in its previous epoch because it has lost the response with the change (Apache Kafka then never
        sends them)."""
        group = update.group
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=member.epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
        )
        changed = old.assigned != member.assigned
        if request.member_epoch == 0 or changed or request.member_epoch != old.epoch:
            response.active_tasks = _task_ids(member.assigned.active)
            response.standby_tasks = _task_ids(member.assigned.standby)
            response.warmup_tasks = []
        if (request.member_epoch == 0 or changed) and member.endpoint is not None:
            group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(group, member, self.topics.partition_count)
        if self._groups.find(group.group_id) is not None:
            response.endpoint_information_epoch = group.endpoint_epoch
        response.status = [_status_field(one) for one in (*update.statuses, *_shutdown(group))]
        return response

    # -- departures ----------------------------------------------------------------------------------------------------

    def _leave(self, request: StreamsGroupHeartbeatRequest, out: Result[StreamsHeartbeat]) -> None:
        group = self.group(request.group_id)
        if request.shutdown_application:
            group.request_shutdown(request.member_id)
        self._fence(group, group.member(request.member_id), out)
        out.response = StreamsHeartbeat(
            StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        )

    def _fence(self, group: StreamsGroup, member: StreamsMember, out: Result[Any]) -> None:
        """Remove a member."""
        group_id, member_id, written = group.group_id, member.member_id, streams_records
        out.records.extend(written.member_tombstones(group_id, member_id))
        out.records.append(
            written.group_epoch(
                group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        )

        def applied(out: Result[Any], now: Instant) -> None:
            self._cancel(group_id, member_id)

        out.applied = applied

    # -- timers --------------------------------------------------------------------------------------------------------

    def _delay_assignment(self, group_id: str, delay_ms: int, now: Instant) -> None:
        """The group gets its first member: wait for others before the first assignment."""
        key = _initial(group_id)
        if key not in self._timers:
            self._timers.schedule(key, now.timer_ms + delay_ms, partial(self._assign_delayed, group_id))

    def _assign_delayed(self, group_id: str, out: Result[Any], now: Instant) -> None:
        group = self._groups.find(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.configured is None:
            return
        if group.epoch > group.assignment_epoch:
            target = new_target(group, group.epoch, group.configured, group.assignment_configs, now.wall_ms)
            out.records.extend(target.records)

    def _restart_session(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        key = ("streams-session", group_id, member_id)
        self._timers.schedule(key, now.timer_ms + timeout_ms, partial(self._overdue, group_id, member_id, None))

    def _watch_revocation(self, group_id: str, member: StreamsMember, now: Instant) -> None:
        key = ("streams-rebalance", group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._timers.cancel(key)
            return
        deadline_ms = now.timer_ms + member.rebalance_timeout_ms
        self._timers.schedule(key, deadline_ms, partial(self._overdue, group_id, member.member_id, member.epoch))

    def _overdue(self, group_id: str, member_id: str, epoch: int | None, out: Result[Any], now: Instant) -> None:
        """A deadline of a member has passed: fence it. With an ``epoch``, only if the member is still in that epoch."""
        group = self._groups.find(group_id)
        if not isinstance(group, StreamsGroup):
            return
        member = group.members.get(member_id)
        if member is not None and epoch in (None, member.epoch):
            self._fence(group, member, out)

    def _cancel(self, group_id: str, member_id: str) -> None:
        for kind in ("streams-session", "streams-rebalance"):
            self._timers.cancel((kind, group_id, member_id))

    def forget(self, group: StreamsGroup) -> None:
        """Stop all timers of a deleted group."""
        for member_id in group.members:
            self._cancel(group.group_id, member_id)
        self._timers.cancel(_initial(group.group_id))

    def loaded(self, now: Instant) -> None:
        """The log is loaded: start all sessions."""
        for group in self._groups:
            if not isinstance(group, StreamsGroup):
                continue
            timeout_ms = settings_of(group.group_id, self.topics, self._settings).session_timeout_ms
            for member in group.members.values():
                self._restart_session(group.group_id, member.member_id, timeout_ms, now)
                self._watch_revocation(group.group_id, member, now)


def _initial(group_id: str) -> tuple[str, str]:
    return ("streams-initial", group_id)


def _perform(out: Result[Any], now: Instant, applied: Any) -> None:
    """Call ``applied`` once the records are applied, or at once if there are none."""
    if out.records:
        out.applied = applied
    else:
        applied(out, now)


def _updated(old: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> StreamsMember:
    """The member with the contents of its request. Fields that the request leaves out stay as they were."""
    timeout_ms, endpoint, topology = request.rebalance_timeout_ms, request.user_endpoint, request.topology
    return old._replace(
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=old.topology_epoch if topology is None else topology.epoch,
        client_id=caller.client_id,
        client_host=caller.client_host,
        process_id=old.process_id if request.process_id is None else request.process_id,
        endpoint=old.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=old.client_tags if request.client_tags is None else _tags(request.client_tags),
    )


def _tags(tags: list[KeyValue]) -> dict[str, str]:
    found = {tag.key: tag.value for tag in tags}
    if len(found) < len(tags):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "A client tag is given twice.")
    return found


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=sorted(tasks[one])) for one in hash_map_order(tasks)]


def _shutdown(group: StreamsGroup) -> list[TopologyProblem]:
    if group.shutdown_member is None:
        return []
    detail = (
        f"Streams group member {group.shutdown_member} encountered a fatal error and requested a shutdown for the"
        " entire application."
    )
    return [TopologyProblem(Status.SHUTDOWN_APPLICATION, detail)]


def _status_field(status: TopologyProblem) -> StatusField:
    return StatusField(status_code=status.status, status_detail=status.detail)
