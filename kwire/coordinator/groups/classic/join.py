"""JoinGroup of the classic protocol: who is let in, and what the arrival means for the group.

Members are dynamic (an id made by the coordinator, given out with MEMBER_ID_REQUIRED first since JoinGroup v4) or
static (KIP-345: a group instance id, under which a restarted client takes its predecessor's place). The answer is
parked until the rebalance ends, unless the group can answer from its present generation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.join_group_request import JoinGroupRequest
from kwire.codec.messages.join_group_response import JoinGroupResponse
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember, GroupState
from kwire.coordinator.groups.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer, refusal
from kwire.coordinator.groups.group import Group, Groups, GroupSettings
from kwire.coordinator.runtime.machine import Caller, Instant, Result, Waiter

NewId = Callable[[], str]
"""Makes the random part of a member id: a UUID in its usual text form."""

PENDING_MAX = 10_000
"""Ids that were given out and not used yet, per group: the oldest one gives way to the next."""

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


class Arrival:
    """One JoinGroup on its way through the machine."""

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
        """Version 0 has none of its own: the session timeout stands for it."""
        request = self.request
        return request.session_timeout_ms if self.caller.api_version == 0 else request.rebalance_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        self.out.answer = refusal(error, member_id)

    def new_member(self, member_id: str) -> ClassicMember:
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
    """The operation, for all classic groups of a shard."""

    def __init__(self, groups: Groups, rebalancer: Rebalancer, settings: GroupSettings, new_id: NewId) -> None:
        self._groups = groups
        self._rebalancer = rebalancer
        self._settings = settings
        self._new_id = new_id

    def __call__(self, arrival: Arrival, now: Instant) -> None:
        """Fill the arrival's result. Raises INCONSISTENT_GROUP_PROTOCOL for a group of another type."""
        request = arrival.request
        group = self._groups.find(request.group_id)
        if group is None or (not isinstance(group, ClassicGroup) and group.is_empty):
            self._found(arrival, now, group)
        elif isinstance(group, ClassicGroup):
            self._join(group, arrival, now)
        else:
            arrival.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)

    def _found(self, arrival: Arrival, now: Instant, former: Group | None) -> None:
        """The first of its group: the group is written down, empty, before anybody is in it. It may take the place of
        an empty one of another type."""
        request, out = arrival.request, arrival.out
        if request.member_id:
            arrival.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return
        if former is not None:
            out.records.extend(former.tombstones())
        empty = ClassicGroup(request.group_id, now.wall_ms)
        out.records.append(group_records.empty_group(empty, 0, now.wall_ms))

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
            self._known(group, arrival, now)
        elif arrival.request.group_instance_id is None:
            self._new_dynamic(group, arrival, now)
        else:
            self._new_static(group, arrival, now)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """While a rebalance collects members the size counts those who wait: the last to join again are left out."""
        limit = self._settings.group_max_size
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            return member_id in group.joining or len(group.joining) < limit
        return member_id in group.members or len(group.members) < limit

    # --- without a member id ---------------------------------------------------------------------------------------

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
        self._rebalancer.heard_of(group, member_id, arrival.request.session_timeout_ms, now)
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
            self._replace_quietly(group, predecessor_id, member_id, arrival)
        else:
            self._replace(group, predecessor_id, member_id, arrival, now)
            group.joining[member_id] = [arrival.waiter]
            if group.state is GroupState.PREPARING_REBALANCE:
                self._rebalancer.complete_if_all_joined(group, arrival.out, now)
            else:
                # The leader may already be assigning to the old id: only another generation puts that right.
                self._rebalancer.prepare(group, arrival.out, now)

    def _admit(self, group: ClassicGroup, member_id: str, arrival: Arrival, now: Instant) -> None:
        member = arrival.new_member(member_id)
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.newcomers_since_delay = True
        group.add(member, arrival.request.protocol_type)
        group.joining[member_id] = [arrival.waiter]
        self._rebalancer.heard_of(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self._rebalancer.rebalance_or_complete(group, arrival.out, now)

    # --- static members that come back ------------------------------------------------------------------------------

    def _keeps_protocol(self, group: ClassicGroup, predecessor_id: str, arrival: Arrival) -> bool:
        """Whether the group would choose the same protocol with the newcomer in its predecessor's place."""
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
        """Put the newcomer in its predecessor's place; whatever that one waits for is fenced."""
        old = group.members[old_id]
        was_leader = group.is_leader(old_id)
        self._rebalancer.end_session(group, old_id)
        self._rebalancer.fail_parked(group, old_id, arrival.out, old_id, ErrorCode.FENCED_INSTANCE_ID)
        group.remove(old_id)
        group.add(self._successor(old, new_id, arrival), arrival.request.protocol_type)
        if was_leader:
            group.leader = new_id
        self._rebalancer.heard_of(group, new_id, arrival.request.session_timeout_ms, now)

    def _replace_quietly(self, group: ClassicGroup, old_id: str, new_id: str, arrival: Arrival) -> None:
        """A static member is back in a stable group that need not change: it goes on with the old assignment.

        The log learns the new id first; only then does the group.
        """
        out = arrival.out
        old_leader = group.leader
        newcomer = self._successor(group.members[old_id], new_id, arrival)
        out.records.append(group_records.replaced_member(group, old_id, newcomer))

        def applied(_: Result[Any], now: Instant) -> None:
            self._rebalancer.end_session(group, old_id)
            member = group.members[new_id]
            self._rebalancer.heard_of(group, new_id, arrival.request.session_timeout_ms, now)
            group.update(member, arrival.protocols, arrival.rebalance_timeout_ms, arrival.request.session_timeout_ms)
            out.answer = self._resumed(group, new_id, old_leader, arrival.caller.api_version)

        def failed(_: Result[Any], now: Instant, error: ErrorCode) -> None:
            arrival.refuse(error, "")

        self._rebalancer.fail_parked(group, old_id, out, old_id, ErrorCode.FENCED_INSTANCE_ID)
        out.applied, out.failed = applied, failed

    def _resumed(self, group: ClassicGroup, member_id: str, old_leader: str | None, version: int) -> JoinGroupResponse:
        """Since v9 a leader that is back is told so, and not to assign (KIP-814); before, it is told that its
        predecessor leads, so that it does not try."""
        answer = self._rebalancer.joined(group, member_id)
        if version >= SKIP_ASSIGNMENT_SINCE:
            answer.skip_assignment = group.is_leader(member_id)
        else:
            answer.leader = old_leader or ""
            answer.members = []
        return answer

    # --- with a member id ------------------------------------------------------------------------------------------

    def _known(self, group: ClassicGroup, arrival: Arrival, now: Instant) -> None:
        member_id = arrival.request.member_id
        if member_id in group.pending:
            if arrival.request.group_instance_id is not None:  # ids are given out to dynamic members only
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
        """A member joins again. One that lost its answer, or a follower with nothing new, is simply told."""
        same = member.matches(arrival.protocols)
        state = group.state
        if state is GroupState.EMPTY:
            arrival.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)
        elif same and (
            state is GroupState.COMPLETING_REBALANCE
            or (state is GroupState.STABLE and not group.is_leader(member.member_id))
        ):
            arrival.out.answer = self._rebalancer.joined(group, member.member_id)
        else:
            request = arrival.request
            group.update(member, arrival.protocols, arrival.rebalance_timeout_ms, request.session_timeout_ms)
            self._rebalancer.park_join(group, member.member_id, arrival.waiter, arrival.out)
            self._rebalancer.rebalance_or_complete(group, arrival.out, now)
