"""The records of consumer groups (KIP-848) in ``__consumer_offsets``, as Kafka 4.3 writes them: building and parsing.

`consumer.group` applies them. The records of classic groups and committed offsets are in `groups.records`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kwire.codec.errors import CodecError
from kwire.codec.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kwire.codec.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.codec.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kwire.codec.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kwire.codec.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kwire.codec.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kwire.codec.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kwire.codec.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from kwire.codec.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kwire.codec.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kwire.codec.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kwire.codec.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.codec.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kwire.codec.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kwire.codec.protocol import decode, encode
from kwire.coordinator.assignors.model import Partitions
from kwire.coordinator.groups.consumer.member import ConsumerMember, OwnedPartitions
from kwire.coordinator.runtime.machine import CoordinatorRecord

_PREFIX = struct.Struct(">h")

VALUES: Final[dict[type[Any], type[Any]]] = {
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
}
"""Key message -> value message."""

KEYS: Final[dict[int, type[Any]]] = {kind.API_KEY: kind for kind in VALUES}
"""Record type -> key message."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched. ``version``: the revision of the cluster image it was matched
    with."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = 0


def parse_key(key: bytes | memoryview) -> Any | None:
    """The message of a key, or None if the record does not belong to a consumer group. Raises CodecError."""
    if len(key) < _PREFIX.size:
        raise CodecError(f"a coordinator record's key of {len(key)} bytes has no type")
    kind = KEYS.get(_PREFIX.unpack_from(key)[0])
    return None if kind is None else decode(kind, 0, key, _PREFIX.size)[0]


def parse_value(key: Any, value: bytes | memoryview) -> Any:
    """The message of the value that belongs to a key. Raises CodecError."""
    if len(value) < _PREFIX.size or _PREFIX.unpack_from(value)[0] != 0:
        raise CodecError(f"{type(key).__name__}: a value of another version than 0")
    return decode(VALUES[type(key)], 0, value, _PREFIX.size)[0]


# -- the group ---------------------------------------------------------------------------------------------------------


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The record of the group epoch and the hash of the group's topics."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes the group."""
    return _record(ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes the topics' metadata, which Kafka before 4.1 wrote. The hash in the group's record has
    replaced it."""
    return _record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The record of the group epoch for which the target assignment was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes the epoch of the target assignment."""
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """The record of a resolved regular expression."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def regex_tombstone(group_id: str, pattern: str) -> CoordinatorRecord:
    """The record that deletes a resolved regular expression."""
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


# -- its members -------------------------------------------------------------------------------------------------------


def subscription(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The record of a member's metadata and subscription."""
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def subscription_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member."""
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target(group_id: str, member_id: str, assigned: Partitions) -> CoordinatorRecord:
    """The record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member's target assignment."""
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def current(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The record of a member's current assignment: its partitions, and those that it still has to revoke."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.revoking),
    )
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def current_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member's current assignment."""
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that delete a member and its assignments."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        subscription_tombstone(group_id, member_id),
    ]


def owned_partitions(written: list[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    """Partitions with the epoch in which each was assigned. Records of Kafka before 4.3 lack it; then it is the
    member's."""
    owned: OwnedPartitions = {}
    for topic in written:
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=False))
    return owned


def _topic_partitions(owned: Mapping[bytes, Mapping[int, int]]) -> list[TopicPartitions]:
    written = []
    for topic_id, partitions in owned.items():
        indexes = sorted(partitions)
        epochs = [partitions[index] for index in indexes]
        written.append(TopicPartitions(topic_id=topic_id, partitions=indexes, assignment_epochs=epochs))
    return written


def _record(key: Any, value: Any | None) -> CoordinatorRecord:
    packed = _PREFIX.pack(key.API_KEY) + encode(key, 0)
    return CoordinatorRecord(packed, None if value is None else _PREFIX.pack(0) + encode(value, 0))
