"""The GroupMetadata records of ``__consumer_offsets`` that describe a classic group.

Keys, tombstones and parsing are in `groups.records`, together with the records of committed offsets.
"""

from __future__ import annotations

from kwire.codec.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember
from kwire.coordinator.groups.records import group_metadata
from kwire.coordinator.runtime.machine import CoordinatorRecord


def empty_group(group: ClassicGroup, generation: int, state_ms: int) -> CoordinatorRecord:
    """The record of a classic group without members."""
    return group_metadata(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=generation,
            protocol=None,
            leader=None,
            current_state_timestamp=state_ms,
            members=[],
        ),
    )


def assigned_group(group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
    """The record of a classic group's present generation with the assignments of its leader. Members without one get
    an empty assignment."""
    members = [_member(group, member, assignments.get(member.member_id, b"")) for member in group.members.values()]
    return _generation(group, group.leader, members)


def replaced_member(group: ClassicGroup, old_id: str, new_member: ClassicMember) -> CoordinatorRecord:
    """The record of a classic group in which a static member returns with a new id and keeps its assignment."""
    members = []
    for member in group.members.values():
        if member.member_id == old_id:
            members.append(_member(group, new_member, member.assignment))
        else:
            members.append(_member(group, member, member.assignment))
    return _generation(group, new_member.member_id if group.leader == old_id else group.leader, members)


def _member(group: ClassicGroup, member: ClassicMember, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.protocols.get(group.protocol_name or "", b""),
        assignment=assignment,
    )


def _generation(group: ClassicGroup, leader: str | None, members: list[MemberMetadata]) -> CoordinatorRecord:
    return group_metadata(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=leader,
            current_state_timestamp=group.state_ms,
            members=members,
        ),
    )
