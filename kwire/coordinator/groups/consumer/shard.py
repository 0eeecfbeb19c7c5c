"""The part of a group shard that handles consumer groups (KIP-848): their operations and their records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import at_once
from kwire.codec.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kwire.codec.messages.consumer_group_describe_response import DescribedGroup
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kwire.codec.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kwire.codec.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kwire.codec.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kwire.codec.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kwire.codec.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kwire.codec.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kwire.codec.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kwire.coordinator.groups.classic.rebalance import Rebalancer
from kwire.coordinator.groups.consumer import records as consumer_records
from kwire.coordinator.groups.consumer.classic import ClassicMembers
from kwire.coordinator.groups.consumer.describe import describe
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.member_update import assignor_names
from kwire.coordinator.groups.consumer.migration import Migration
from kwire.coordinator.groups.consumer.protocol import ConsumerProtocol
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import Group, Groups, GroupSettings
from kwire.coordinator.runtime.long_operations import EstimatedPace, Steps
from kwire.coordinator.runtime.machine import Caller, Instant, Result
from kwire.coordinator.runtime.timers import Timers

CHECKED_US: Final = 1
"""What it takes to check whether a member may commit the offset of a partition, about."""


class ConsumerShard:
    """See the module. ``protocol`` handles ConsumerGroupHeartbeat, ``classic`` the classic requests of members of
    consumer groups."""

    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        settings: GroupSettings,
        new_id: Callable[[], str],
        rebalancer: Rebalancer,
        topics: Topics,
    ) -> None:
        migration = Migration(groups, rebalancer, settings)
        self.protocol = ConsumerProtocol(groups, timers, settings, new_id, migration, topics)
        self.classic = ClassicMembers(self.protocol, migration, settings)
        self._groups = groups
        self._settings = settings

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Instant
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat. Raises KafkaError for an invalid request."""
        out: Result[ConsumerGroupHeartbeatResponse] = Result()
        self.protocol.heartbeat(request, caller, out, now)
        return out

    def describe(self, group_id: str) -> Result[DescribedGroup]:
        """ConsumerGroupDescribe for one group. Raises GROUP_ID_NOT_FOUND."""
        group = self.protocol.group(group_id)
        return Result(describe(group, self.protocol.topics, assignor_names(self._settings)[0]))

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Raises ILLEGAL_GENERATION unless the member may commit the offsets of these partitions in a transaction. With
        an older epoch, it may commit those that it has owned since that epoch (KIP-1251). TxnOffsetCommit does not
        define the error STALE_MEMBER_EPOCH."""
        group = self._groups.find(request.group_id)
        if group is not None:
            at_once(self._checked(group, request))

    def check_transactional_commit_in_steps(self, request: TxnOffsetCommitRequest, pace: EstimatedPace) -> Steps:
        """The same for very many partitions."""
        group = self._groups.find(request.group_id)
        if group is not None:
            for _ in self._checked(group, request):
                if pace.spent(CHECKED_US):
                    yield

    def _checked(self, group: Group, request: TxnOffsetCommitRequest) -> Steps:
        """Check one partition after the other."""
        topics = self.protocol.topics
        try:
            for topic in request.topics:
                topic_id = topics.id(topic.name)
                for partition in topic.partitions if topic_id is not None else ():
                    index = partition.partition_index
                    group.check_partition_commit(
                        request.member_id, request.generation_id, topic.name, topic_id or b"", index
                    )
                    yield
        except KafkaError:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from None

    # -- records -------------------------------------------------------------------------------------------------------

    def apply(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        """Apply a record. Raises CodecError. Records of unknown types are ignored."""
        parsed = consumer_records.parse_key(key)
        if parsed is None:
            return
        written = None if value is None else consumer_records.parse_value(parsed, value)
        found = self._groups.find(parsed.group_id)
        group = found if isinstance(found, ConsumerGroup) else None
        if group is None:
            if written is None:
                return  # a tombstone for a group that no longer exists
            group = ConsumerGroup(parsed.group_id)
            self._groups.put(group)
        self._apply(group, parsed, written)

    def _apply(self, group: ConsumerGroup, key: Any, value: Any | None) -> None:
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            group.apply_subscription(key.member_id, value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            group.apply_current(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            group.apply_target(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            group.apply_target_epoch(value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            group.apply_regex(key.regular_expression, value)
        elif isinstance(key, ConsumerGroupPartitionMetadataKey):
            group.has_partition_metadata = value is not None
        elif isinstance(key, ConsumerGroupMetadataKey):
            self._apply_epoch(group, value)

    def _apply_epoch(self, group: ConsumerGroup, value: Any | None) -> None:
        if value is None:
            self._groups.remove(group.group_id)
            self.protocol.forget(group)
        else:
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
