"""The rebalance of a classic group: from one generation to the next, with the timers that bound it.

There are three kinds of timers:

* session (per member or pending member id): a member from which no request came in time is removed.
* join (per group): the rebalance has waited long enough; members that did not join are removed.
* sync (per group): the generation has waited long enough for SyncGroup; members that did not send it are removed.

JoinGroup (`classic.join`), SyncGroup, Heartbeat and LeaveGroup (`classic.protocol`) use these transitions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kwire.base.errors import ErrorCode
from kwire.codec.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.coordinator.groups.classic import records as classic_records
from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember
from kwire.coordinator.groups.group import Groups, GroupSettings, GroupState
from kwire.coordinator.runtime.machine import Instant, Result, Waiter
from kwire.coordinator.runtime.timers import Timers

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member without any JoinGroup response yet stays in a rebalance: its client may have disconnected."""

PARKED_MAX = 8
"""How many requests of one kind are parked per member. A client that repeats its request over new connections gets
REBALANCE_IN_PROGRESS for the oldest."""

_CAN_PREPARE = (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class Rebalancer:
    """The transitions of one shard's classic groups."""

    def __init__(self, groups: Groups, timers: Timers, settings: GroupSettings) -> None:
        self._groups = groups
        self._timers = timers
        self._settings = settings

    # -- sessions ------------------------------------------------------------------------------------------------------

    def restart_session(self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Restart the session timer of a member or pending member id."""
        self._timers.schedule(
            ("session", group.group_id, member_id),
            now.timer_ms + timeout_ms,
            partial(self._session_expired, group, member_id),
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Stop the session timer of a member that is no longer in the group."""
        self._timers.cancel(("session", group.group_id, member_id))

    def _session_expired(self, group: ClassicGroup, member_id: str, out: Result[Any], now: Instant) -> None:
        if not self._groups.holds(group):
            return
        if member_id in group.pending:
            group.remove(member_id)
            self.complete_if_all_joined(group, out, now)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        if not member.is_new and (member_id in group.joining or member_id in group.syncing):
            return  # the member has a parked request; the response restarts its session
        self.expel(group, member, out)
        self.after_departure(group, out, now)

    def forget(self, group: ClassicGroup) -> None:
        """Stop all timers of a deleted group."""
        for member_id in (*group.members, *group.pending):
            self.end_session(group, member_id)
        self._timers.cancel(("join", group.group_id))
        self._timers.cancel(("sync", group.group_id))

    # -- departures ----------------------------------------------------------------------------------------------------

    def expel(self, group: ClassicGroup, member: ClassicMember, out: Result[Any]) -> None:
        """Remove a member. Its parked requests fail with UNKNOWN_MEMBER_ID, so that a live client joins again."""
        self.end_session(group, member.member_id)
        self.fail_parked(group, member.member_id, out, "", ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)

    def after_departure(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Members were removed: rebalance, or complete the rebalance that has waited for them."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, out, now)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(group, out, now)

    def fail_parked(
        self, group: ClassicGroup, member_id: str, out: Result[Any], response_member_id: str, error: ErrorCode
    ) -> None:
        """Answer the parked requests of a member with an error. ``response_member_id``: the member id in JoinGroup
        responses."""
        for waiter in group.joining.pop(member_id, ()):
            out.replies.append((waiter, refusal(error, response_member_id)))
        for waiter in group.syncing.pop(member_id, ()):
            out.replies.append((waiter, SyncGroupResponse(error_code=error)))

    # -- parked requests -----------------------------------------------------------------------------------------------

    def park_join(self, group: ClassicGroup, member_id: str, waiter: Waiter, out: Result[Any]) -> None:
        """Park a JoinGroup until the rebalance ends."""
        oldest = _park(group.joining, member_id, waiter)
        if oldest is not None:
            out.replies.append((oldest, refusal(ErrorCode.REBALANCE_IN_PROGRESS, member_id)))

    def park_sync(self, group: ClassicGroup, member_id: str, waiter: Waiter, out: Result[Any]) -> None:
        """Park a SyncGroup until the leader has sent the assignment."""
        oldest = _park(group.syncing, member_id, waiter)
        if oldest is not None:
            out.replies.append((oldest, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))

    # -- from rebalance to generation ----------------------------------------------------------------------------------

    def rebalance_or_complete(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """A member has joined: start a rebalance, or complete the present one if all members have joined."""
        if group.state in _CAN_PREPARE:
            self.prepare(group, out, now)
        else:
            self.complete_if_all_joined(group, out, now)

    def prepare(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Start a rebalance: all members have to join again. The first rebalance of an empty group waits for more
        members (`group.initial.rebalance.delay.ms`)."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self.answer_syncs(group, out, now, ErrorCode.REBALANCE_IN_PROGRESS)
        self._timers.cancel(("sync", group.group_id))
        from_empty = group.state is GroupState.EMPTY
        group.enter(GroupState.PREPARING_REBALANCE, now.wall_ms)
        if from_empty:
            delay_ms = self._settings.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_initial(group, delay_ms, remaining_ms, now)
        elif group.all_joined:
            self.complete_join(group, out, now)
        else:
            self._schedule_join_end(group, now)

    def complete_if_all_joined(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Complete a rebalance early if all members have joined. The first rebalance of a group keeps its delay."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.all_joined
        ):
            self.complete_join(group, out, now)

    def complete_join(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Form the next generation out of the members that have joined.

        Dynamic members that have not joined are removed. Static members stay. If only static members are left and none
        of them has joined, the rebalance goes on until they join or their sessions expire.
        """
        self._timers.cancel(("join", group.group_id))
        late = [m for m in group.members.values() if m.member_id not in group.joining and m.instance_id is None]
        for member in late:
            self.end_session(group, member.member_id)
            group.remove(member.member_id)
        if not group.members:
            self._become_empty(group, out, now)
        elif not group.elect_joined_leader():
            self._schedule_join_end(group, now)
        else:
            group.start_generation(now.wall_ms)
            self._answer_joins(group, out, now)
            self.await_syncs(group, now)

    def await_syncs(self, group: ClassicGroup, now: Instant) -> None:
        """Start the timer within which the members have to send SyncGroup: the rebalance timeout."""
        self._timers.schedule(
            ("sync", group.group_id),
            now.timer_ms + group.rebalance_timeout_ms,
            partial(self._sync_overdue, group, group.generation),
        )

    def _schedule_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Instant) -> None:
        group.newcomers_since_delay = False
        self._timers.schedule(
            ("join", group.group_id),
            now.timer_ms + delay_ms,
            partial(self._initial_delay_over, group, delay_ms, remaining_ms),
        )

    def _initial_delay_over(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int, out: Result[Any], now: Instant
    ) -> None:
        """Extend the delay while new members join, up to the rebalance timeout."""
        if not self._groups.holds(group):
            return
        if group.newcomers_since_delay and remaining_ms > 0:
            next_ms = min(self._settings.group_initial_rebalance_delay_ms, remaining_ms)
            self._schedule_initial(group, next_ms, max(remaining_ms - delay_ms, 0), now)
        else:
            self.complete_join(group, out, now)

    def _schedule_join_end(self, group: ClassicGroup, now: Instant) -> None:
        deadline_ms = now.timer_ms + group.rebalance_timeout_ms
        self._timers.schedule(("join", group.group_id), deadline_ms, partial(self._join_overdue, group))

    def _join_overdue(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        if self._groups.holds(group):
            self.complete_join(group, out, now)

    def _become_empty(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        generation = group.generation + 1
        out.records.append(classic_records.empty_group(group, generation, now.wall_ms))

        def failed(_: Result[Any], now: Instant, error: ErrorCode) -> None:
            # No request waits for this record. The group is empty without it, and a later record will say so.
            group.generation = generation
            group.protocol_name = group.leader = None
            group.enter(GroupState.EMPTY, now.wall_ms)

        out.failed = failed

    def _answer_joins(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        for member in group.members.values():
            for waiter in group.joining.pop(member.member_id, ()):
                out.replies.append((waiter, self.joined(group, member.member_id)))
            self.restart_session(group, member.member_id, member.session_timeout_ms, now)
            member.is_new = False

    def joined(self, group: ClassicGroup, member_id: str) -> JoinGroupResponse:
        """The JoinGroup response with the present generation. The leader gets the metadata of all members."""
        leads = group.is_leader(member_id)
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
            member_id=member_id,
            members=self.roster(group) if leads else [],
        )

    def roster(self, group: ClassicGroup) -> list[JoinGroupResponseMember]:
        """All members with their metadata for the chosen protocol. Only the leader gets them."""
        name = group.protocol_name or ""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols.get(name, b""),
            )
            for member in group.members.values()
        ]

    # -- the assignment ------------------------------------------------------------------------------------------------

    def sync_arrived(self, group: ClassicGroup, member_id: str) -> None:
        """Note that a member of the generation has sent SyncGroup. After the last one the sync timer stops."""
        group.unsynced.pop(member_id, None)
        if not group.unsynced:
            self._timers.cancel(("sync", group.group_id))

    def answer_syncs(self, group: ClassicGroup, out: Result[Any], now: Instant, error: ErrorCode) -> None:
        """Answer all parked SyncGroup requests with the assignments or an error."""
        for member in group.members.values():
            waiters = group.syncing.pop(member.member_id, None)
            if waiters is None:
                continue
            for waiter in waiters:
                out.replies.append((waiter, self.synced(group, member, error)))
            # The session may have expired while the request was parked, without effect. Restart it.
            self.restart_session(group, member.member_id, member.session_timeout_ms, now)

    def synced(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> SyncGroupResponse:
        """The SyncGroup response of one member."""
        if error is not ErrorCode.NONE:
            return SyncGroupResponse(error_code=error, assignment=member.assignment)
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    def _sync_overdue(self, group: ClassicGroup, generation: int, out: Result[Any], now: Instant) -> None:
        """Remove the members that have not sent SyncGroup in time."""
        if not self._groups.holds(group) or group.generation != generation or not group.unsynced:
            return
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        for member_id in list(group.unsynced):
            self.end_session(group, member_id)
            self.fail_parked(group, member_id, out, "", ErrorCode.UNKNOWN_MEMBER_ID)
            group.remove(member_id)
        self.prepare(group, out, now)


def _park(table: dict[str, list[Waiter]], member_id: str, waiter: Waiter) -> Waiter | None:
    """Park a waiter. Returns the oldest waiter if there are too many."""
    waiters = table.setdefault(member_id, [])
    waiters.append(waiter)
    return waiters.pop(0) if len(waiters) > PARKED_MAX else None


def refusal(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """The JoinGroup response for an error. Its protocol name is null, as in version 7 and later."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
