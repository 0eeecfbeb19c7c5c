"""SyncGroup, Heartbeat, LeaveGroup and DescribeGroups of the classic protocol. JoinGroup is in `classic.join`."""

from __future__ import annotations

from functools import partial
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.coordinator.groups.classic import records as classic_records
from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember
from kwire.coordinator.groups.classic.rebalance import Rebalancer
from kwire.coordinator.groups.group import GroupCounters, Groups, GroupState
from kwire.coordinator.runtime.java_hash import hash_map_order
from kwire.coordinator.runtime.machine import Instant, Result, Waiter

DESCRIBE_MISSING_GROUP_SINCE = 6
"""From this version of DescribeGroups on, a missing group is an error (KIP-1043). Before, its state is Dead."""


class ClassicProtocol:
    """The requests of members after JoinGroup, for all classic groups of a shard."""

    def __init__(self, groups: Groups, rebalancer: Rebalancer, counters: GroupCounters) -> None:
        self._groups = groups
        self._counters = counters
        self._rebalancer = rebalancer

    def _group(self, group_id: str) -> ClassicGroup:
        """The classic group with this id. Raises UNKNOWN_MEMBER_ID if there is none."""
        group = self._groups.find(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # -- SyncGroup -----------------------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, waiter: Waiter, out: Result[SyncGroupResponse], now: Instant) -> None:
        """SyncGroup. The leader sends the assignment; once it is written, each member gets its part."""
        try:
            group = self._group(request.group_id)
            group.check_member(request.member_id, request.group_instance_id)
            group.check_generation(request.generation_id)
            _check_protocol(group, request)
            if group.state is GroupState.EMPTY:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if group.state is GroupState.PREPARING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            out.response = SyncGroupResponse(error_code=error.code)
            return
        self._rebalancer.sync_arrived(group, request.member_id)
        if group.state is GroupState.STABLE:
            out.response = self._rebalancer.synced(group, group.members[request.member_id], ErrorCode.NONE)
            return
        self._rebalancer.park_sync(group, request.member_id, waiter, out)
        if group.is_leader(request.member_id):
            assignments = {given.member_id: bytes(given.assignment) for given in request.assignments}
            out.records.append(classic_records.assigned_group(group, assignments))
            out.applied = partial(self._assigned, group)
            out.failed = partial(self._not_stored, group)

    def _assigned(self, group: ClassicGroup, out: Result[Any], now: Instant) -> None:
        self._counters.completed_rebalances += 1
        self._rebalancer.answer_syncs(group, out, now, ErrorCode.NONE)

    def _not_stored(self, group: ClassicGroup, out: Result[Any], now: Instant, error: ErrorCode) -> None:
        """The assignment could not be written: all parked requests fail, and the group rebalances."""
        for member in group.members.values():
            member.assignment = b""
        self._rebalancer.answer_syncs(group, out, now, error)
        self._rebalancer.rebalance_or_complete(group, out, now)

    # -- Heartbeat -----------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, out: Result[HeartbeatResponse], now: Instant) -> None:
        """Heartbeat: restarts the session. The error REBALANCE_IN_PROGRESS makes the member join again."""
        try:
            group = self._group(request.group_id)
            group.check_member(request.member_id, request.group_instance_id)
            group.check_generation(request.generation_id)
        except KafkaError as error:
            out.response = HeartbeatResponse(error_code=error.code)
            return
        if group.state is GroupState.EMPTY:
            out.response = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            return
        member = group.members[request.member_id]
        self._rebalancer.restart_session(group, member.member_id, member.session_timeout_ms, now)
        rebalancing = group.state is GroupState.PREPARING_REBALANCE
        out.response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE)

    def committed(self, group: ClassicGroup, member_id: str, now: Instant) -> None:
        """A member has committed offsets, which restarts its session as a heartbeat does."""
        member = group.members.get(member_id)
        if member is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._rebalancer.restart_session(group, member_id, member.session_timeout_ms, now)

    # -- LeaveGroup ----------------------------------------------------------------------------------------------------

    def leave(self, request: LeaveGroupRequest, out: Result[LeaveGroupResponse], now: Instant) -> None:
        """LeaveGroup: members leave by member id or, at an administrator's request, by group instance id. Each has an
        error of its own."""
        group = self._groups.find(request.group_id)
        if not isinstance(group, ClassicGroup):
            responses = [_left(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members]
            out.response = LeaveGroupResponse(members=responses)
            return
        responses = [_left(member, self._leave_one(group, member, out)) for member in request.members]
        out.response = LeaveGroupResponse(members=responses)
        if any(response.error_code == ErrorCode.NONE for response in responses):
            self._rebalancer.after_departure(group, out, now)

    def _leave_one(self, group: ClassicGroup, leaving: MemberIdentity, out: Result[Any]) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            current = None if leaving.group_instance_id is None else group.static_ids.get(leaving.group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = current
        elif member_id in group.pending:
            self._rebalancer.end_session(group, member_id)
            group.remove(member_id)
            return ErrorCode.NONE
        else:
            try:
                group.check_member(member_id, leaving.group_instance_id)
            except KafkaError as error:
                return error.code
        self._rebalancer.expel(group, group.members[member_id], out)
        return ErrorCode.NONE

    # -- DescribeGroups ------------------------------------------------------------------------------------------------

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """DescribeGroups for one group. Only a stable group includes the members' metadata."""
        group = self._groups.find(group_id)
        if not isinstance(group, ClassicGroup):
            missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            if version >= DESCRIBE_MISSING_GROUP_SINCE:
                missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                what = "not found" if group is None else "not a classic group"
                missing.error_message = f"Group {group_id} {'is ' if group is not None else ''}{what}."
            return missing
        stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.listed_protocol_type,
            protocol_data=(group.protocol_name or "") if stable else "",
            members=[_described(group, group.members[each], stable) for each in hash_map_order(group.members)],
        )


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Since version 5, SyncGroup names the protocol. It must be the group's."""
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name is not None and request.protocol_name != group.protocol_name:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _left(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)


def _described(group: ClassicGroup, member: ClassicMember, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.protocols.get(group.protocol_name or "", b"") if stable else b"",
        member_assignment=member.assignment,
    )
