"""The part of a shard that deals with share groups (KIP-932): their operations and their records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kwire.codec.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kwire.codec.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kwire.codec.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kwire.codec.messages.share_group_describe_response import DescribedGroup
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.codec.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kwire.codec.messages.share_group_metadata_key import ShareGroupMetadataKey
from kwire.codec.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kwire.codec.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kwire.codec.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupCounters, Groups, GroupSettings
from kwire.coordinator.groups.share import records as share_records
from kwire.coordinator.groups.share.describe import describe
from kwire.coordinator.groups.share.group import ShareGroup
from kwire.coordinator.groups.share.offsets import Forgetting, ShareOffsets
from kwire.coordinator.groups.share.protocol import ShareHeartbeat, ShareProtocol
from kwire.coordinator.groups.share.states import Partitions
from kwire.coordinator.runtime.machine import Caller, Instant, Result
from kwire.coordinator.runtime.timers import Timers


class ShareShard:
    """See the module. ``protocol`` handles ShareGroupHeartbeat."""

    def __init__(
        self, groups: Groups, timers: Timers, settings: GroupSettings, counters: GroupCounters, topics: Topics
    ) -> None:
        self.protocol = ShareProtocol(groups, timers, settings, counters, topics)
        self.offsets = ShareOffsets(groups, self.protocol)
        self._groups = groups

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller, now: Instant) -> Result[ShareHeartbeat]:
        """ShareGroupHeartbeat. Raises KafkaError for an invalid request."""
        out: Result[ShareHeartbeat] = Result()
        self.protocol.heartbeat(request, caller, out, now)
        return out

    def initialized(self, group_id: str, known: Partitions, failed: Partitions) -> Result[bool]:
        """The share coordinators know some partitions of a group, and others could not be initialised."""
        out: Result[bool] = Result(True)
        self.protocol.initialized(group_id, known, failed, out)
        return out

    def forget_topics(self, topics: Collection[bytes]) -> Result[None]:
        """Topics were deleted."""
        out: Result[None] = Result()
        self.protocol.forget_topics(topics, out)
        return out

    def begin_deletion(self, group_id: str) -> Result[DeleteShareGroupStateRequest]:
        """The request by which the share coordinators forget a group. Raises GROUP_ID_NOT_FOUND."""
        out: Result[DeleteShareGroupStateRequest] = Result()
        self.protocol.begin_deletion(group_id, out)
        return out

    def alter_offsets(
        self, group_id: str, offsets: Mapping[str, Sequence[tuple[int, int]]]
    ) -> Result[InitializeShareGroupStateRequest]:
        """The request by which the share coordinators begin again at these offsets. Raises KafkaError."""
        out: Result[InitializeShareGroupStateRequest] = Result()
        self.offsets.alter(group_id, offsets, out)
        return out

    def forget_offsets(self, group_id: str, names: Collection[str]) -> Result[Forgetting]:
        """The request by which the share coordinators forget topics. Raises KafkaError."""
        out: Result[Forgetting] = Result()
        self.offsets.forget(group_id, names, out)
        return out

    def offsets_forgotten(self, group_id: str, topics: Collection[bytes]) -> Result[bool]:
        """The share coordinators have forgotten these topics."""
        out: Result[bool] = Result()
        self.offsets.forgotten(group_id, topics, out)
        return out

    def describe(self, group_id: str) -> Result[DescribedGroup]:
        """ShareGroupDescribe for one group. Raises GROUP_ID_NOT_FOUND."""
        return Result(describe(self.protocol.group(group_id), self.protocol.topics))

    # -- records -------------------------------------------------------------------------------------------------------

    def apply(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        """Apply a record. Raises CodecError. Records of unknown types are ignored.

        After compaction, any record of a group or of a member may be the first one: it creates the group, as far as it
        is known, and takes the place of a group of another type with the same id. A tombstone of what is not there is
        ignored.
        """
        parsed = share_records.parse_key(key)
        if parsed is None:
            return
        written = None if value is None else share_records.parse_value(parsed, value)
        found = self._groups.find(parsed.group_id)
        group = found if isinstance(found, ShareGroup) else None
        if group is None:
            if written is None:
                return
            group = ShareGroup(parsed.group_id)
            self._groups.put(group)
        self._apply(group, parsed, written)

    def _apply(self, group: ShareGroup, key: Any, value: Any | None) -> None:
        if isinstance(key, ShareGroupMemberMetadataKey):
            group.apply_member(key.member_id, value)
        elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            group.apply_current(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            group.apply_target(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            group.apply_target_epoch(value)
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            group.apply_states(value)
        elif isinstance(key, ShareGroupMetadataKey):
            self._apply_epoch(group, value)

    def _apply_epoch(self, group: ShareGroup, value: Any | None) -> None:
        if value is None:
            self._groups.remove(group.group_id)
            self.protocol.forget(group)
        else:
            group.apply_epoch(value)
