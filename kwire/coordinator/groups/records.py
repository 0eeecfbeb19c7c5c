"""The records of ``__consumer_offsets``, in the versions that Kafka 4.3 writes: keys, values, tombstones, and back.

A key is a 16-bit record type and the key's fields, a value a 16-bit version and the value's fields. What the records
mean is `group_shard`'s business.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.uuids import ZERO_UUID
from kwire.codec.errors import CodecError
from kwire.codec.messages.group_metadata_key import GroupMetadataKey
from kwire.codec.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kwire.codec.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kwire.codec.messages.offset_commit_key import OffsetCommitKey
from kwire.codec.messages.offset_commit_value import OffsetCommitValue
from kwire.codec.protocol import decode, encode
from kwire.coordinator.runtime.machine import CoordinatorRecord

if TYPE_CHECKING:
    from kwire.coordinator.groups.classic.group import ClassicGroup, ClassicMember

NO_TIMESTAMP: Final = -1
_GROUP_METADATA_VERSION = 3
_OFFSET_VERSION = 3
_OFFSET_VERSION_WITH_EXPIRY = 1
_OFFSET_VERSION_WITH_TOPIC_ID = 4
_PREFIX = struct.Struct(">h")
_KEYS: dict[int, type[Any]] = {
    kind.API_KEY: kind for kind in (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey)
}


class CommittedOffset(NamedTuple):
    """One committed position. ``expire_ms`` is -1 unless the client set the time itself (OffsetCommit v2 to v4).
    ``record_offset``: where in the log it stands, which decides between a transaction's commit and a later one."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = NO_TIMESTAMP
    expire_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1


def offset_commit(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    """A group's position on one partition."""
    if committed.expire_ms != NO_TIMESTAMP:
        version = _OFFSET_VERSION_WITH_EXPIRY
    elif committed.topic_id != ZERO_UUID:
        version = _OFFSET_VERSION_WITH_TOPIC_ID
    else:
        version = _OFFSET_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(_offset_key(group_id, topic, partition), _with_prefix(version, value))


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Forget a group's position on one partition."""
    return CoordinatorRecord(_offset_key(group_id, topic, partition), None)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Forget a classic group."""
    return CoordinatorRecord(_group_key(group_id), None)


def empty_group(group: ClassicGroup, generation: int, state_ms: int) -> CoordinatorRecord:
    """A classic group that has no members (any more)."""
    return _group_record(group.group_id, GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=state_ms,
        members=[],
    ))  # fmt: skip


def assigned_group(group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
    """A classic group's present generation with what its leader assigned; members left out get nothing."""
    members = [_member(group, member, assignments.get(member.member_id, b"")) for member in group.members.values()]
    return _generation(group, group.leader, members)


def replaced_member(group: ClassicGroup, old_id: str, newcomer: ClassicMember) -> CoordinatorRecord:
    """A classic group in which a static member has come back under a new id, and goes on with its assignment."""
    members = []
    for member in group.members.values():
        if member.member_id == old_id:
            members.append(_member(group, newcomer, member.assignment))
        else:
            members.append(_member(group, member, member.assignment))
    return _generation(group, newcomer.member_id if group.leader == old_id else group.leader, members)


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
    return _group_record(group.group_id, GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=leader,
        current_state_timestamp=group.state_ms,
        members=members,
    ))  # fmt: skip


def parse_key(key: bytes | memoryview) -> Any | None:
    """The key's message, or None for a record type that is not of the classic protocol (or not known at all).

    Raises CodecError for bytes that are no key of their type.
    """
    kind = _KEYS.get(_prefix(key, "key"))
    return None if kind is None else decode(kind, 0, key, _PREFIX.size)[0]


def parse_value(kind: type[Any], value: bytes | memoryview) -> Any:
    """A value of the class given, in whatever version it was written. Raises CodecError."""
    version = _prefix(value, "value")
    low, high = kind.VALID_VERSIONS
    if not low <= version <= high:
        raise CodecError(f"{kind.__name__}: version {version} is not one of {low} to {high}")
    return decode(kind, version, value, _PREFIX.size)[0]


def _prefix(data: bytes | memoryview, what: str) -> int:
    if len(data) < _PREFIX.size:
        raise CodecError(f"a coordinator record's {what} of {len(data)} bytes has no version")
    number: int = _PREFIX.unpack_from(data)[0]
    return number


def _with_prefix(number: int, message: Any) -> bytes:
    return _PREFIX.pack(number) + encode(message, number)


def _group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(_group_key(group_id), _with_prefix(_GROUP_METADATA_VERSION, value))


def _group_key(group_id: str) -> bytes:
    return _PREFIX.pack(GroupMetadataKey.API_KEY) + encode(GroupMetadataKey(group=group_id), 0)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _PREFIX.pack(OffsetCommitKey.API_KEY) + encode(key, 0)
