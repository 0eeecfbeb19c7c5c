"""JoinGroup of the classic protocol.

Members are dynamic or static. The coordinator makes the id of a dynamic member; since JoinGroup v4 it first returns the
id with MEMBER_ID_REQUIRED, and the member joins with it. A static member has a group instance id, with which a
restarted client replaces its predecessor (KIP-345). The request is parked until the rebalance ends, unless the response
follows from the present generation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.join_group_request import JoinGroupRequest
from kwire.codec.messages.join_group_response import JoinGroupResponse
from kwire.coordinator.groups.classic import records as classic_records
from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember
from kwire.coordinator.groups.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer, refusal
from kwire.coordinator.groups.group import Group, Groups, GroupSettings, GroupState
from kwire.coordinator.runtime.machine import Caller, Instant, Result, Waiter

NewId = Callable[[], str]
"""Returns the random part of a member id: a UUID in its usual text form."""

PENDING_MAX = 10_000
"""The limit on pending member ids per group. A further id replaces the oldest."""

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


class Arrival:
    """One JoinGroup request with its caller, its waiter and its result."""

    __slots__ = ("caller", "out", "protocols", "request", "waiter")

    def __init__(
        self, request: JoinGroupRequest, caller: Caller, waiter: Waiter, out: Result[JoinGroupResponse]
    ) -> None:
        self.request = request
        self.caller = caller
        self.waiter = waiter
        self.out = out
        self.protocols = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout. Version 0 has none: the session timeout takes its place."""
        request = self.request
        return request.session_timeout_ms if self.caller.api_version == 0 else request.rebalance_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        """Set an error response."""
        self.out.response = refusal(error, member_id)

    def new_member(self, member_id: str) -> ClassicMember:
        """A member with the contents of this request."""
        return ClassicMember(
            member_id,
            instance_id=self.request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
        )


class JoinGroup:
    """JoinGroup for all classic groups of a shard."""

    def __init__(self, groups: Groups, rebalancer: Rebalancer, settings: GroupSettings, new_id: NewId) -> None:
        self._groups = groups
        self._rebalancer = rebalancer
        self._settings = settings
        self._new_id = new_id

    def __call__(self, arrival: Arrival, now: Instant) -> None:
        """Run one request and fill its result. The error is INCONSISTENT_GROUP_PROTOCOL for a group of another type."""
        request = arrival.request
        group = self._groups.find(request.group_id)
        if group is None or (not isinstance(group, ClassicGroup) and group.is_empty):
            self._create(arrival, now, group)
        elif isinstance(group, ClassicGroup):
            self._join(group, arrival, now)
        else:
            arrival.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")

    def _create(self, arrival: Arrival, now: Instant, former: Group | None) -> None:
        """Create the group for its first member. It is written to the log before the member is added, and may replace
        an empty group of another type."""
        request, out = arrival.request, arrival.out
        if request.member_id:
            arrival.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return
        if former is not None:
            out.records.extend(former.tombstones())
        empty = ClassicGroup(request.group_id, now.wall_ms)
        out.records.append(classic_records.empty_group(empty, 0, now.wall_ms))

        def applied(_: Result[Any], now: Instant) -> None:
            group = self._groups.find(request.group_id)
            assert isinstance(group, ClassicGroup)
            self._join(group, arrival, now)

        def failed(_: Result[Any], now: Instant, error: ErrorCode) -> None:
            arrival.refuse(error, "")

        out.applied, out.failed = applied, failed

    def _join(self, group: ClassicGroup, arrival: Arrival, now: Instant) -> None:
        member_id = arrival.request.member_id
        if not self._has_room(group, member_id):
            if member_id in group.members:
                self._rebalancer.expel(group, group.members[member_id], arrival.out)
            group.remove(member_id)
            self._rebalancer.end_session(group, member_id)
            arrival.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(arrival.request.protocol_type, arrival.protocols):
            arrival.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif member_id:
            self._join_with_id(group, arrival, now)
        elif arrival.request.group_instance_id is None:
            self._new_dynamic(group, arrival, now)
        else:
            self._new_static(group, arrival, now)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group has room for the member (`group.max.size`). During a rebalance the members that have joined
        count, so that the last ones to join again are refused."""
        limit = self._settings.group_max_size
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            return member_id in group.joining or len(group.joining) < limit
        return member_id in group.members or len(group.members) < limit

    # -- without a member id -------------------------------------------------------------------------------------------

    def _new_dynamic(self, group: ClassicGroup, arrival: Arrival, now: Instant) -> None:
        member_id = f"{arrival.caller.client_id}-{self._new_id()}"
        if arrival.caller.api_version < MEMBER_ID_REQUIRED_SINCE:
            self._admit(group, member_id, arrival, now)
            return
        if len(group.pending) >= PENDING_MAX:
            oldest = next(iter(group.pending))
            self._rebalancer.end_session(group, oldest)
            group.remove(oldest)
        group.pending[member_id] = None
        self._rebalancer.restart_session(group, member_id, arrival.request.session_timeout_ms, now)
        arrival.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _new_static(self, group: ClassicGroup, arrival: Arrival, now: Instant) -> None:
        instance_id = arrival.request.group_instance_id or ""
        member_id = f"{instance_id}-{self._new_id()}"
        predecessor_id = group.static_ids.get(instance_id)
        if predecessor_id is None:
            self._admit(group, member_id, arrival, now)
        elif (
            group.state is GroupState.STABLE
            and self._keeps_protocol(group, predecessor_id, arrival)
            and not group.is_to_join_again(predecessor_id)
        ):
            self._replace_without_rebalance(group, predecessor_id, member_id, arrival)
        else:
            self._replace(group, predecessor_id, member_id, arrival, now)
            group.joining[member_id] = [arrival.waiter]
            if group.state is GroupState.PREPARING_REBALANCE:
                self._rebalancer.complete_if_all_joined(group, arrival.out, now)
            else:
                # The leader may be assigning partitions to the old member id. Only a new generation corrects that.
                self._rebalancer.prepare(group, arrival.out, now)

    def _admit(self, group: ClassicGroup, member_id: str, arrival: Arrival, now: Instant) -> None:
        member = arrival.new_member(member_id)
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.newcomers_since_delay = True
        group.add(member, arrival.request.protocol_type)
        group.joining[member_id] = [arrival.waiter]
        self._rebalancer.restart_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self._rebalancer.rebalance_or_complete(group, arrival.out, now)

    # -- static members that return ------------------------------------------------------------------------------------

    def _keeps_protocol(self, group: ClassicGroup, predecessor_id: str, arrival: Arrival) -> bool:
        """Whether the group would choose the same protocol if the new member replaced its predecessor."""
        predecessor = group.members[predecessor_id]
        old = predecessor.protocols, predecessor.rebalance_timeout_ms, predecessor.session_timeout_ms
        group.update(predecessor, arrival.protocols, old[1], old[2])
        same = group.choose_protocol() == group.protocol_name
        group.update(predecessor, *old)
        return same

    def _successor(self, old: ClassicMember, new_id: str, arrival: Arrival) -> ClassicMember:
        member = arrival.new_member(new_id)
        member.client_id, member.client_host = old.client_id, old.client_host
        member.assignment, member.held = old.assignment, old.held
        return member

    def _replace(self, group: ClassicGroup, old_id: str, new_id: str, arrival: Arrival, now: Instant) -> None:
        """Replace the predecessor by the new member. The predecessor's parked requests fail with FENCED_INSTANCE_ID."""
        old = group.members[old_id]
        was_leader = group.is_leader(old_id)
        self._rebalancer.end_session(group, old_id)
        self._rebalancer.fail_parked(group, old_id, arrival.out, old_id, ErrorCode.FENCED_INSTANCE_ID)
        group.remove(old_id)
        group.add(self._successor(old, new_id, arrival), arrival.request.protocol_type)
        if was_leader:
            group.leader = new_id
        self._rebalancer.restart_session(group, new_id, arrival.request.session_timeout_ms, now)

    def _replace_without_rebalance(self, group: ClassicGroup, old_id: str, new_id: str, arrival: Arrival) -> None:
        """Replace a static member in a stable group without a rebalance: the new member keeps the assignment.

        The new member id is written to the log before the group changes.
        """
        out = arrival.out
        old_leader = group.leader
        new_member = self._successor(group.members[old_id], new_id, arrival)
        out.records.append(classic_records.replaced_member(group, old_id, new_member))

        def applied(_: Result[Any], now: Instant) -> None:
            self._rebalancer.end_session(group, old_id)
            member = group.members[new_id]
            self._rebalancer.restart_session(group, new_id, arrival.request.session_timeout_ms, now)
            group.update(member, arrival.protocols, arrival.rebalance_timeout_ms, arrival.request.session_timeout_ms)
            out.response = self._resumed(group, new_id, old_leader, arrival.caller.api_version)

        def failed(_: Result[Any], now: Instant, error: ErrorCode) -> None:
            arrival.refuse(error, "")

        self._rebalancer.fail_parked(group, old_id, out, old_id, ErrorCode.FENCED_INSTANCE_ID)
        out.applied, out.failed = applied, failed

    def _resumed(self, group: ClassicGroup, member_id: str, old_leader: str | None, version: int) -> JoinGroupResponse:
        """The response to a static member that has returned. If it leads the group, version 9 and later say so and set
        SkipAssignment (KIP-814). Before, the response names its predecessor as the leader, so that it does not
        assign."""
        response = self._rebalancer.joined(group, member_id)
        if version >= SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = group.is_leader(member_id)
        else:
            response.leader = old_leader or ""
            response.members = []
        return response

    # -- with a member id ----------------------------------------------------------------------------------------------

    def _join_with_id(self, group: ClassicGroup, arrival: Arrival, now: Instant) -> None:
        member_id = arrival.request.member_id
        if member_id in group.pending:
            if arrival.request.group_instance_id is not None:  # only dynamic members have pending ids
                arrival.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            else:
                self._admit(group, member_id, arrival, now)
            return
        try:
            group.check_member(member_id, arrival.request.group_instance_id)
        except KafkaError as error:
            arrival.refuse(error.code, member_id)
            return
        self._rejoin(group, group.members[member_id], arrival, now)

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, arrival: Arrival, now: Instant) -> None:
        """A member joins again. If it has lost its response, or is a follower with unchanged protocols, it gets the
        present generation at once."""
        same = member.matches(arrival.protocols)
        state = group.state
        if state is GroupState.EMPTY:
            arrival.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)
        elif same and (
            state is GroupState.COMPLETING_REBALANCE
            or (state is GroupState.STABLE and not group.is_leader(member.member_id))
        ):
            arrival.out.response = self._rebalancer.joined(group, member.member_id)
        else:
            request = arrival.request
            group.update(member, arrival.protocols, arrival.rebalance_timeout_ms, request.session_timeout_ms)
            self._rebalancer.park_join(group, member.member_id, arrival.waiter, arrival.out)
            self._rebalancer.rebalance_or_complete(group, arrival.out, now)
