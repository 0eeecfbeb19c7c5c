"""The part of a shard that belongs to consumer groups (KIP-848): operations put together, and records applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
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
from kwire.coordinator.groups.group import Groups, GroupSettings
from kwire.coordinator.runtime.machine import Caller, Instant, Result
from kwire.coordinator.runtime.timers import Timers


class ConsumerShard:
    """See the module. ``protocol``: the new members; ``classic``: members of the old protocol in consumer groups."""

    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        settings: GroupSettings,
        new_id: Callable[[], str],
        rebalancer: Rebalancer,
    ) -> None:
        migration = Migration(groups, rebalancer, settings)
        self.protocol = ConsumerProtocol(groups, timers, settings, new_id, migration)
        self.classic = ClassicMembers(self.protocol, migration, settings)
        self._groups = groups
        self._settings = settings

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Instant
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat. Raises KafkaError for what the member has done wrong."""
        out: Result[ConsumerGroupHeartbeatResponse] = Result()
        self.protocol.heartbeat(request, caller, out, now)
        return out

    def describe(self, group_id: str) -> Result[DescribedGroup]:
        """One group's part of ConsumerGroupDescribe. Raises GROUP_ID_NOT_FOUND."""
        group = self.protocol.group(group_id)
        return Result(describe(group, self.protocol.cluster, assignor_names(self._settings)[0]))

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """A member behind its epoch may commit what it has owned since then, in transactions too. Raises
        ILLEGAL_GENERATION: TxnOffsetCommit does not know of epochs."""
        group = self._groups.find(request.group_id)
        topics = self.protocol.topics
        if not isinstance(group, ConsumerGroup) or topics is None:
            return
        try:
            for topic in request.topics:
                topic_id = topics.id(topic.name)
                for partition in topic.partitions if topic_id is not None else ():
                    index = partition.partition_index
                    group.check_partition_commit(request.member_id, request.generation_id, topic_id or b"", index)
        except KafkaError:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from None

    # --- records ---------------------------------------------------------------------------------------------------

    def apply(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        """Change the state as a record says. Raises CodecError; types that are not known are passed over."""
        parsed = consumer_records.parse_key(key)
        if parsed is None:
            return
        written = None if value is None else consumer_records.parse_value(parsed, value)
        found = self._groups.find(parsed.group_id)
        group = found if isinstance(found, ConsumerGroup) else None
        if group is None:
            if written is None:
                return  # the tombstone of what is gone
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
