"""Requests to the share coordinator (KIP-932), and their responses as plain data."""

from __future__ import annotations

from typing import Any

from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.base.uuids import uuid_to_text
from kwire.codec.messages import (
    delete_share_group_state_request as deletes,
)
from kwire.codec.messages import (
    initialize_share_group_state_request as initializes,
)
from kwire.codec.messages import (
    read_share_group_state_request as reads,
)
from kwire.codec.messages import (
    read_share_group_state_summary_request as summaries,
)
from kwire.codec.messages import (
    write_share_group_state_request as writes,
)
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic

SHARE = 2
UNKNOWN_TOPIC = bytes([7] * 16)
Batch = tuple[int, int, int, int]
"""First and last offset, delivery state, delivery count."""


class ShareStates:
    """The state of one group. Partitions are those of a topic that exists; ``topic_id`` may be set to another one."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self.client = WireClient(broker.bootstrap)
        self.group = group
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        self.topic_id: bytes = self.client.call(request, 12).topics[0].topic_id

    def find(self, key: str, version: int = 6) -> str:
        """FindCoordinator for a share partition: the name of the error."""
        request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
        return ErrorCode(self.client.call(request, version).coordinators[0].error_code).name

    def key(self, partition: int = 0) -> str:
        """The key of a share partition."""
        return f"{self.group}:{uuid_to_text(self.topic_id)}:{partition}"

    def initialize(self, partition: int, state_epoch: int, start_offset: int) -> dict[str, Any]:
        """InitializeShareGroupState."""
        data = initializes.PartitionData(partition=partition, state_epoch=state_epoch, start_offset=start_offset)
        topics = [initializes.InitializeStateData(topic_id=self.topic_id, partitions=[data])]
        return self._one(initializes.InitializeShareGroupStateRequest(group_id=self.group, topics=topics), 0)

    def write(
        self,
        partition: int,
        batches: list[Batch],
        *,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = -1,
        complete: int = -1,
        version: int = 1,
    ) -> dict[str, Any]:
        """WriteShareGroupState."""
        data = writes.PartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete,
            state_batches=[
                writes.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        topics = [writes.WriteStateData(topic_id=self.topic_id, partitions=[data])]
        return self._one(writes.WriteShareGroupStateRequest(group_id=self.group, topics=topics), version)

    def read(self, partition: int, leader_epoch: int = -1) -> dict[str, Any]:
        """ReadShareGroupState."""
        data = reads.PartitionData(partition=partition, leader_epoch=leader_epoch)
        topics = [reads.ReadStateData(topic_id=self.topic_id, partitions=[data])]
        return self._one(reads.ReadShareGroupStateRequest(group_id=self.group, topics=topics), 0)

    def summary(self, partition: int, version: int = 1) -> dict[str, Any]:
        """ReadShareGroupStateSummary."""
        data = summaries.PartitionData(partition=partition, leader_epoch=-1)
        topics = [summaries.ReadStateSummaryData(topic_id=self.topic_id, partitions=[data])]
        return self._one(summaries.ReadShareGroupStateSummaryRequest(group_id=self.group, topics=topics), version)

    def delete(self, partition: int) -> dict[str, Any]:
        """DeleteShareGroupState."""
        topics = [
            deletes.DeleteStateData(topic_id=self.topic_id, partitions=[deletes.PartitionData(partition=partition)])
        ]
        return self._one(deletes.DeleteShareGroupStateRequest(group_id=self.group, topics=topics), 0)

    def _one(self, request: Any, version: int) -> dict[str, Any]:
        response = self.client.call(request, version)
        (topic,) = response.results
        assert topic.topic_id == self.topic_id
        (result,) = topic.partitions
        return plain(result)


def plain(result: Any) -> dict[str, Any]:
    """The result of a partition. Whether there is a message counts, not its text."""
    found: dict[str, Any] = {}
    for name in result.__slots__:
        value = getattr(result, name)
        if name == "error_code":
            found["error"] = ErrorCode(value).name
        elif name == "error_message":
            found["message"] = value is not None
        elif name == "state_batches":
            found["batches"] = [
                [each.first_offset, each.last_offset, each.delivery_state, each.delivery_count] for each in value
            ]
        elif name != "unknown_tags":
            found[name] = value
    return found
