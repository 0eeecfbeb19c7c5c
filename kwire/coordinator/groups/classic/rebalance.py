"""How a classic group gets from one generation to the next, and the timers that keep it from getting stuck.

Three kinds of timers, each keyed by its group:

* session (per member or pending id): nothing was heard of it; it is out.
* join (per group): the rebalance has waited long enough; whoever did not join is out.
* sync (per group): the generation has waited long enough for SyncGroup; whoever did not send one is out.

Shared by JoinGroup (`classic_join`), SyncGroup, Heartbeat and LeaveGroup (`classic_protocol`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kwire.base.errors import ErrorCode
from kwire.codec.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember, GroupState
from kwire.coordinator.groups.group import Groups, GroupSettings
from kwire.coordinator.runtime.machine import Instant, Result, Waiter
from kwire.coordinator.runtime.timers import Timers

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member that never saw an answer may hang in a rebalance: its client may be long gone."""

PARKED_MAX = 8
"""A client that asks again and again over new connections has so many requests parked; older ones are given up."""

_CAN_PREPARE = (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class Rebalancer:
    """The transitions of one shard's classic groups."""

    def __init__(self, groups: Groups, timers: Timers, settings: GroupSettings) -> None:
        self._groups = groups
        self._timers = timers
        self._settings = settings

    # --- sessions --------------------------------------------------------------------------------------------------

    def heard_of(self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Start the session of a member or pending id anew."""
        self._timers.schedule(
            ("session", group.group_id, member_id),
            now.timer_ms + timeout_ms,
            partial(self._session_expired, group, member_id),
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """The member is gone: its session needs no timer."""
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
            return  # it waits for us; its session starts anew with the answer
        self.expel(group, member, out)
        self.after_departure(group, out, now)

    def forget(self, group: ClassicGroup) -> None:
        """The group is deleted: none of its timers is needed."""
        for member_id in (*group.members, *group.pending):
            self.end_session(group, member_id)
        self._timers.cancel(("join", group.group_id))
        self._timers.cancel(("sync", group.group_id))

    # --- departures ------------------------------------------------------------------------------------------------

    def expel(self, group: ClassicGroup, member: ClassicMember, out: Result[Any]) -> None:
        """Take a member out; what it has parked is answered UNKNOWN_MEMBER_ID, so that a live client joins again."""
        self.end_session(group, member.member_id)
        self.fail_parked(group, member.member_id, out, "", ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)

    def after_departure(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Members left: the others need a new generation, or the rebalance that waited for them may be complete."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, out, now)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(group, out, now)

    def fail_parked(
        self, group: ClassicGroup, member_id: str, out: Result[Any], told_id: str, error: ErrorCode
    ) -> None:
        """Answer all that a member has parked with an error; ``told_id`` is the member id in the join answer."""
        for waiter in group.joining.pop(member_id, ()):
            out.replies.append((waiter, refusal(error, told_id)))
        for waiter in group.syncing.pop(member_id, ()):
            out.replies.append((waiter, SyncGroupResponse(error_code=error)))

    # --- parked requests -------------------------------------------------------------------------------------------

    def park_join(self, group: ClassicGroup, member_id: str, waiter: Waiter, out: Result[Any]) -> None:
        """Keep a JoinGroup until the rebalance ends."""
        given_up = _park(group.joining, member_id, waiter)
        if given_up is not None:
            out.replies.append((given_up, refusal(ErrorCode.REBALANCE_IN_PROGRESS, member_id)))

    def park_sync(self, group: ClassicGroup, member_id: str, waiter: Waiter, out: Result[Any]) -> None:
        """Keep a SyncGroup until there is an assignment."""
        given_up = _park(group.syncing, member_id, waiter)
        if given_up is not None:
            out.replies.append((given_up, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))

    # --- towards a generation ---------------------------------------------------------------------------------------

    def rebalance_or_complete(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Somebody joined: start a rebalance, or see whether the one that is under way has everybody now."""
        if group.state in _CAN_PREPARE:
            self.prepare(group, out, now)
        else:
            self.complete_if_all_joined(group, out, now)

    def prepare(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Ask all members to join again. The first rebalance of an empty group waits for more to come."""
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
        """End a rebalance early when everybody is here; the first one of a group keeps its delay."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.all_joined
        ):
            self.complete_join(group, out, now)

    def complete_join(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """The rebalance has waited enough: those who joined form the next generation.

        Static members may be late, and stay; while nobody at all has joined, the others' sessions decide.
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
        """Give those who are not synced the rebalance timeout to ask for their part."""
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
        """Wait once more while members keep coming, until the rebalance timeout is used up."""
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
        out.records.append(group_records.empty_group(group, generation, now.wall_ms))

        def failed(_: Result[Any], now: Instant, error: ErrorCode) -> None:
            # Nobody waits for this write; the group is as empty without it, and the next one will tell.
            group.generation = generation
            group.protocol_name = group.leader = None
            group.enter(GroupState.EMPTY, now.wall_ms)

        out.failed = failed

    def _answer_joins(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        for member in group.members.values():
            for waiter in group.joining.pop(member.member_id, ()):
                out.replies.append((waiter, self.joined(group, member.member_id)))
            self.heard_of(group, member.member_id, member.session_timeout_ms, now)
            member.is_new = False

    def joined(self, group: ClassicGroup, member_id: str) -> JoinGroupResponse:
        """The present generation as a member is told of it: the leader gets everybody's metadata."""
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
        """All members with the metadata of the chosen protocol, for the leader."""
        name = group.protocol_name or ""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols.get(name, b""),
            )
            for member in group.members.values()
        ]

    # --- the assignment ---------------------------------------------------------------------------------------------

    def sync_arrived(self, group: ClassicGroup, member_id: str) -> None:
        """A member of the generation has sent SyncGroup: one less to wait for."""
        group.unsynced.pop(member_id, None)
        if not group.unsynced:
            self._timers.cancel(("sync", group.group_id))

    def answer_syncs(self, group: ClassicGroup, out: Result[Any], now: Instant, error: ErrorCode) -> None:
        """Answer all parked SyncGroups: with the assignments, or an error."""
        for member in group.members.values():
            waiters = group.syncing.pop(member.member_id, None)
            if waiters is None:
                continue
            for waiter in waiters:
                out.replies.append((waiter, self.synced(group, member, error)))
            # While it waited its session may have run out unheeded: start it anew.
            self.heard_of(group, member.member_id, member.session_timeout_ms, now)

    def synced(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> SyncGroupResponse:
        """One member's part of the assignment."""
        if error is not ErrorCode.NONE:
            return SyncGroupResponse(error_code=error, assignment=member.assignment)
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    def _sync_overdue(self, group: ClassicGroup, generation: int, out: Result[Any], now: Instant) -> None:
        """Members that took their generation and never asked for their part are out."""
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
    """Add a waiter; returns the oldest one if there are too many."""
    waiters = table.setdefault(member_id, [])
    waiters.append(waiter)
    return waiters.pop(0) if len(waiters) > PARKED_MAX else None


def refusal(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A JoinGroup that failed, as version 7 and later tell it: without a protocol name."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
