"""The part of a shard that deals with streams groups (KIP-1071): their operations and their records."""

from __future__ import annotations

from typing import Any

from kwire.codec.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kwire.codec.messages.streams_group_describe_response import DescribedGroup
from kwire.codec.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kwire.codec.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kwire.codec.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kwire.codec.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kwire.codec.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from kwire.codec.messages.streams_group_topology_key import StreamsGroupTopologyKey
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupCounters, Groups, GroupSettings
from kwire.coordinator.groups.streams import records as streams_records
from kwire.coordinator.groups.streams.describe import describe
from kwire.coordinator.groups.streams.group import StreamsGroup
from kwire.coordinator.groups.streams.protocol import StreamsHeartbeat, StreamsProtocol
from kwire.coordinator.runtime.machine import Caller, Instant, Result
from kwire.coordinator.runtime.timers import Timers


class StreamsShard:
    """See the module. ``protocol`` handles StreamsGroupHeartbeat."""

    def __init__(
        self, groups: Groups, timers: Timers, settings: GroupSettings, counters: GroupCounters, topics: Topics
    ) -> None:
        self.protocol = StreamsProtocol(groups, timers, settings, counters, topics)
        self._groups = groups

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: Caller, now: Instant
    ) -> Result[StreamsHeartbeat]:
        """StreamsGroupHeartbeat. Raises KafkaError for an invalid request."""
        out: Result[StreamsHeartbeat] = Result()
        self.protocol.heartbeat(request, caller, out, now)
        return out

    def describe(self, group_id: str) -> Result[DescribedGroup]:
        """StreamsGroupDescribe for one group. Raises GROUP_ID_NOT_FOUND."""
        return Result(describe(self.protocol.group(group_id)))

    # -- records -------------------------------------------------------------------------------------------------------

    def apply(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        """Apply a record. Raises CodecError. Records of unknown types are ignored.

        After compaction, any record of a group or of a member may be the first one: it creates the group, as far as it
        is known, and takes the place of a group of another type with the same id. A tombstone of what is not there is
        ignored (KAFKA-20254).
        """
        parsed = streams_records.parse_key(key)
        if parsed is None:
            return
        written = None if value is None else streams_records.parse_value(parsed, value)
        found = self._groups.find(parsed.group_id)
        group = found if isinstance(found, StreamsGroup) else None
        if group is None:
            if written is None:
                return
            group = StreamsGroup(parsed.group_id)
            self._groups.put(group)
        self._apply(group, parsed, written)

    def _apply(self, group: StreamsGroup, key: Any, value: Any | None) -> None:
        if isinstance(key, StreamsGroupMemberMetadataKey):
            group.apply_member(key.member_id, value)
        elif isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
            group.apply_current(key.member_id, value)
        elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
            group.apply_target(key.member_id, value)
        elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
            group.apply_target_epoch(value)
        elif isinstance(key, StreamsGroupTopologyKey):
            group.apply_topology(value)
        elif isinstance(key, StreamsGroupMetadataKey):
            self._apply_epoch(group, value)

    def _apply_epoch(self, group: StreamsGroup, value: Any | None) -> None:
        if value is None:
            self._groups.remove(group.group_id)
            self.protocol.forget(group)
        else:
            group.apply_epoch(value)
