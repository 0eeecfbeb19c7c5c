"""Requests of members of a share group (KIP-932), and their responses as plain data."""

from __future__ import annotations

from typing import Any

from compat_tests.comparisons.share_state.requests import ShareStates
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages import produce_request as produces
from kwire.codec.messages import share_acknowledge_request as acknowledges
from kwire.codec.messages import share_fetch_request as fetches
from kwire.codec.records import Record, build_batch

Acknowledged = tuple[int, int, list[int]]
"""First and last offset, types."""


class ShareMember:
    """A member of a share group that reads partition 0 of a topic. What is fetched waits at most ``wait_ms``."""

    def __init__(self, broker: Broker, states: ShareStates, topic: str, member_id: str) -> None:
        self.client = WireClient(broker.bootstrap)
        self.group: str | None = states.group
        self.topic = topic
        self.topic_id = states.topic_id
        self.member_id = member_id

    def produce(self, count: int) -> None:
        """Append one batch of so many records."""
        records = [Record(offset=each, timestamp=1, key=None, value=b"%d" % each) for each in range(count)]
        data = produces.PartitionProduceData(index=0, records=memoryview(bytearray(build_batch(records))))
        topic = produces.TopicProduceData(name=self.topic, partition_data=[data])
        self.client.call(produces.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 9)

    def fetch(
        self,
        epoch: int,
        *acknowledged: Acknowledged,
        partition: int | None = 0,
        forget: int | None = None,
        version: int = 2,
        limits: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """ShareFetch."""
        batches = [
            fetches.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        asked = [fetches.FetchPartition(partition_index=partition or 0, acknowledgement_batches=batches)]
        topics = [fetches.FetchTopic(topic_id=self.topic_id, partitions=asked)]
        forgotten = [fetches.ForgottenTopic(topic_id=self.topic_id, partitions=[forget])] if forget is not None else []
        given = {"max_wait_ms": 5000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        request = fetches.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=[] if partition is None else topics,
            forgotten_topics_data=forgotten,
            **(given | (limits or {})),
        )
        return _fetched(self.client.call(request, version))

    def acknowledge(self, epoch: int, *acknowledged: Acknowledged, version: int = 2, renew: bool = False) -> Any:
        """ShareAcknowledge."""
        batches = [
            acknowledges.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        partition = acknowledges.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = [acknowledges.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])]
        request = acknowledges.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renew,
            topics=topics,
        )
        response = self.client.call(request, version)
        return {
            "error": _name(response.error_code),
            "message": response.error_message,
            "lock_ms": response.acquisition_lock_timeout_ms,
            "partitions": [
                (part.partition_index, _name(part.error_code), part.error_message is not None)
                for topic in response.responses
                for part in topic.partitions
            ],
        }


def _fetched(response: Any) -> dict[str, Any]:
    return {
        "error": _name(response.error_code),
        "message": response.error_message,
        "lock_ms": response.acquisition_lock_timeout_ms,
        "partitions": [
            {
                "partition": part.partition_index,
                "error": _name(part.error_code),
                "message": part.error_message,
                "acknowledged": (_name(part.acknowledge_error_code), part.acknowledge_error_message is not None),
                "bytes": len(part.records or b""),
                "acquired": [
                    (each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records
                ],
            }
            for topic in response.responses
            for part in topic.partitions
        ],
    }


def _name(code: int) -> str:
    return ErrorCode(code).name
