"""The records of share groups (KIP-932) in ``__consumer_offsets``, as Kafka 4.3 writes them: building and parsing.

`share.group` applies them. Types 10 to 15.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from kwire.codec.errors import CodecError
from kwire.codec.messages import share_group_current_member_assignment_value as current_value
from kwire.codec.messages import share_group_state_partition_metadata_value as states_value
from kwire.codec.messages import share_group_target_assignment_member_value as target_value
from kwire.codec.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kwire.codec.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kwire.codec.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kwire.codec.messages.share_group_metadata_key import ShareGroupMetadataKey
from kwire.codec.messages.share_group_metadata_value import ShareGroupMetadataValue
from kwire.codec.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kwire.codec.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kwire.codec.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kwire.codec.messages.share_group_target_assignment_metadata_value import ShareGroupTargetAssignmentMetadataValue
from kwire.codec.protocol import decode, encode
from kwire.coordinator.groups.share.member import ShareMember
from kwire.coordinator.groups.share.states import NamedPartitions, PartitionStates
from kwire.coordinator.runtime.java_hash import string_order
from kwire.coordinator.runtime.machine import CoordinatorRecord

_PREFIX = struct.Struct(">h")
_STABLE = 0
"""The only state of a member: it has nothing to revoke first."""

VALUES: Final[dict[type[Any], type[Any]]] = {
    ShareGroupMetadataKey: ShareGroupMetadataValue,
    ShareGroupMemberMetadataKey: ShareGroupMemberMetadataValue,
    ShareGroupTargetAssignmentMetadataKey: ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey: target_value.ShareGroupTargetAssignmentMemberValue,
    ShareGroupCurrentMemberAssignmentKey: current_value.ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataKey: states_value.ShareGroupStatePartitionMetadataValue,
}
"""Key message -> value message."""

KEYS: Final[dict[int, type[Any]]] = {kind.API_KEY: kind for kind in VALUES}
"""Record type -> key message."""


def parse_key(key: bytes | memoryview) -> Any | None:
    """The message of a key, or None if the record does not belong to a share group. Raises CodecError."""
    if len(key) < _PREFIX.size:
        raise CodecError(f"a coordinator record's key of {len(key)} bytes has no type")
    kind = KEYS.get(_PREFIX.unpack_from(key)[0])
    return None if kind is None else decode(kind, 0, key, _PREFIX.size)[0]


def parse_value(key: Any, value: bytes | memoryview) -> Any:
    """The message of the value that belongs to a key. Raises CodecError."""
    if len(value) < _PREFIX.size or _PREFIX.unpack_from(value)[0] != 0:
        raise CodecError(f"{type(key).__name__}: a value of another version than 0")
    return decode(VALUES[type(key)], 0, value, _PREFIX.size)[0]


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The record of the group epoch."""
    return _record(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes a group."""
    return _record(ShareGroupMetadataKey(group_id=group_id), None)


def target_epoch(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """The record of the target assignment's epoch. ``wall_ms``: when it was computed."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return _record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes the target assignment's epoch."""
    return _record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def member_metadata(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """The record of what a member has sent about itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics, key=string_order),
    )
    return _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target(group_id: str, member_id: str, partitions: Mapping[bytes, frozenset[int]]) -> CoordinatorRecord:
    """The record of a member's target assignment."""
    value = target_value.ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            target_value.TopicPartition(topic_id=topic, partitions=sorted(partitions[topic]))
            for topic in sorted(partitions)
        ]
    )
    return _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """The record of a member's epochs and partitions."""
    value = current_value.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            current_value.TopicPartitions(topic_id=topic, partitions=sorted(member.assigned[topic]))
            for topic in sorted(member.assigned)
        ],
    )
    return _record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def partition_states(group_id: str, states: PartitionStates) -> CoordinatorRecord:
    """The record of which partitions the share coordinators know."""
    value = states_value.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_named(states.initializing),
        initialized_topics=_named(states.initialized),
        deleting_topics=[
            states_value.TopicInfo(topic_id=topic, topic_name=states.deleting[topic])
            for topic in sorted(states.deleting)
        ],
    )
    return _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def partition_states_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes what the group knows of the share coordinators."""
    return _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)


def current_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member's current assignment."""
    return _record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member's target assignment."""
    return _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member."""
    return _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def read_states(value: states_value.ShareGroupStatePartitionMetadataValue) -> PartitionStates:
    """What a record says about the share coordinators."""
    return PartitionStates(
        {one.topic_id: NamedPartitions(one.topic_name, frozenset(one.partitions)) for one in value.initializing_topics},
        {one.topic_id: NamedPartitions(one.topic_name, frozenset(one.partitions)) for one in value.initialized_topics},
        {one.topic_id: one.topic_name for one in value.deleting_topics},
    )


def _named(topics: Mapping[bytes, NamedPartitions]) -> list[states_value.TopicPartitionsInfo]:
    return [
        states_value.TopicPartitionsInfo(
            topic_id=topic, topic_name=topics[topic].name, partitions=sorted(topics[topic].partitions)
        )
        for topic in sorted(topics)
    ]


def _record(key: Any, value: Any | None) -> CoordinatorRecord:
    packed = _PREFIX.pack(key.API_KEY) + encode(key, 0)
    return CoordinatorRecord(packed, None if value is None else _PREFIX.pack(0) + encode(value, 0))
