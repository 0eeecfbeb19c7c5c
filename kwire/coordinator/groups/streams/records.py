"""The records of streams groups (KIP-1071) in ``__consumer_offsets``, as Kafka 4.3 writes them: building and parsing.

`streams.group` applies them. Types 17 and 19 to 23.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from kwire.codec.errors import CodecError
from kwire.codec.messages import streams_group_current_member_assignment_value as current_value
from kwire.codec.messages import streams_group_target_assignment_member_value as target_value
from kwire.codec.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kwire.codec.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kwire.codec.messages.streams_group_member_metadata_value import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataValue,
)
from kwire.codec.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kwire.codec.messages.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from kwire.codec.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kwire.codec.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from kwire.codec.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from kwire.codec.messages.streams_group_topology_key import StreamsGroupTopologyKey
from kwire.codec.messages.streams_group_topology_value import StreamsGroupTopologyValue
from kwire.codec.protocol import decode, encode
from kwire.coordinator.groups.streams.member import (
    ActivePartitions,
    OwnedTasks,
    Partitions,
    StreamsMember,
    Tasks,
)
from kwire.coordinator.runtime.java_hash import string_order
from kwire.coordinator.runtime.machine import CoordinatorRecord

_PREFIX = struct.Struct(">h")

VALUES: Final[dict[type[Any], type[Any]]] = {
    StreamsGroupMetadataKey: StreamsGroupMetadataValue,
    StreamsGroupMemberMetadataKey: StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMetadataKey: StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTargetAssignmentMemberKey: target_value.StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupCurrentMemberAssignmentKey: current_value.StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupTopologyKey: StreamsGroupTopologyValue,
}
"""Key message -> value message."""

KEYS: Final[dict[int, type[Any]]] = {kind.API_KEY: kind for kind in VALUES}
"""Record type -> key message."""


def parse_key(key: bytes | memoryview) -> Any | None:
    """The message of a key, or None if the record does not belong to a streams group. Raises CodecError."""
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


def group_epoch(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    """The record of the group epoch. ``configs``: those that the next assignment is computed with."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)],
    )
    return _record(StreamsGroupMetadataKey(group_id=group_id), value)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes a group."""
    return _record(StreamsGroupMetadataKey(group_id=group_id), None)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    """The record of the group's topology."""
    return _record(StreamsGroupTopologyKey(group_id=group_id), value)


def topology_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes the group's topology."""
    return _record(StreamsGroupTopologyKey(group_id=group_id), None)


def target_epoch(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """The record of the target assignment's epoch. ``wall_ms``: when it was computed."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return _record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes the target assignment's epoch."""
    return _record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)


# -- members -----------------------------------------------------------------------------------------------------------


def member_metadata(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """The record of what a member has sent about itself."""
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id or "",
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[
            KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags, key=string_order)
        ],
    )
    return _record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    """The record of a member's target assignment."""
    value = target_value.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_tasks(tasks.active), standby_tasks=_target_tasks(tasks.standby)
    )
    return _record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """The record of a member's tasks, and of those that it still has to revoke."""
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        active_tasks=_active_tasks(member.assigned.active),
        standby_tasks=_standby_tasks(member.assigned.standby),
        active_tasks_pending_revocation=_active_tasks(member.revoking.active),
        standby_tasks_pending_revocation=_standby_tasks(member.revoking.standby),
    )
    return _record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def current_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member's current assignment."""
    return _record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member's target assignment."""
    return _record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """The record that deletes a member."""
    return _record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that delete a member and its assignments."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


# -- tasks -------------------------------------------------------------------------------------------------------------


def read_target(value: target_value.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    """The target assignment in a record."""
    return Tasks(
        {one.subtopology_id: frozenset(one.partitions) for one in value.active_tasks},
        {one.subtopology_id: frozenset(one.partitions) for one in value.standby_tasks},
    )


def read_owned(
    active: list[current_value.TaskIds], standby: list[current_value.TaskIds], member_epoch: int
) -> OwnedTasks:
    """The tasks in a record. If the epochs of active tasks are missing or incomplete, they are the member's."""
    owned: dict[str, dict[int, int]] = {}
    for one in active:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        owned[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return OwnedTasks(owned, {one.subtopology_id: frozenset(one.partitions) for one in standby})


def _target_tasks(tasks: Partitions) -> list[target_value.TaskIds]:
    return [
        target_value.TaskIds(subtopology_id=one, partitions=sorted(tasks[one]))
        for one in sorted(tasks, key=string_order)
    ]


def _active_tasks(tasks: ActivePartitions) -> list[current_value.TaskIds]:
    written = []
    for subtopology_id in sorted(tasks, key=string_order):
        partitions = sorted(tasks[subtopology_id])
        epochs = [tasks[subtopology_id][partition] for partition in partitions]
        one = current_value.TaskIds(subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=epochs)
        written.append(one)
    return written


def _standby_tasks(tasks: Partitions) -> list[current_value.TaskIds]:
    return [
        current_value.TaskIds(subtopology_id=one, partitions=sorted(tasks[one]))
        for one in sorted(tasks, key=string_order)
    ]


def _record(key: Any, value: Any | None) -> CoordinatorRecord:
    packed = _PREFIX.pack(key.API_KEY) + encode(key, 0)
    return CoordinatorRecord(packed, None if value is None else _PREFIX.pack(0) + encode(value, 0))
