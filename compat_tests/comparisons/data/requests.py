"""Record batches, requests for one partition, and responses as plain data, for the tests of Produce and Fetch."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

from harness.observations import started_ms
from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.codec.message import Struct
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

NOW_MS = started_ms() // 1000 * 1000  # the same in the tests of both brokers

_TIMES = ("log_append_time_ms",)


def batch(*values: bytes | None, timestamp: int = NOW_MS, key: bytes | None = b"k", **options: Any) -> bytes:
    """A batch of records one millisecond apart."""
    records = [Record(timestamp=timestamp + number, key=key, value=value) for number, value in enumerate(values)]
    return build_batch(records, **options)


def with_byte(data: bytes, position: int, value: int) -> bytes:
    """A copy with one byte changed and the old CRC."""
    return data[:position] + bytes([value]) + data[position + 1 :]


def resealed(data: bytes) -> bytes:
    """A copy with the correct CRC for its content."""
    import crc32c

    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


class Topic:
    """One topic and a connection to its broker: the requests of these tests, for partition 0 unless given."""

    def __init__(self, client: WireClient, name: str) -> None:
        self.client = client
        self.name = name
        self.id = self._topic_id()

    def _topic_id(self) -> bytes:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.name)], allow_auto_topic_creation=False)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            topic = self.client.call(request, 12).topics[0]
            indexes = range(len(topic.partitions))
            if indexes and not any(self.offset_at(-1, index=index)["error_code"] for index in indexes):
                return bytes(topic.topic_id)
            time.sleep(0.02)
        raise TimeoutError(self.name)

    def produce(
        self,
        records: bytes | None,
        version: int = 13,
        acks: int = -1,
        index: int = 0,
        name: str | None = None,
        topic_id: bytes | None = None,
        transactional_id: str | None = None,
    ) -> dict[str, Any]:
        """The response for the partition; varying times are reduced to whether they are present."""
        data = PartitionProduceData(index=index, records=records)
        topic = TopicProduceData(
            name=self.name if name is None else name, topic_id=topic_id or self.id, partition_data=[data]
        )
        request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic], transactional_id=transactional_id)
        response = self.client.call(request, version)
        fields: dict[str, Any] = plain(response.responses[0].partition_responses[0])
        # The texts differ between the brokers; whether there is one must not.
        fields["error_message"] = bool(fields["error_message"])
        for error in fields["record_errors"]:
            error["batch_index_error_message"] = bool(error["batch_index_error_message"])
        return fields

    def fetch_request(self, offset: int, **options: Any) -> FetchRequest:
        """A Fetch request for the topic; options are fields of the request or of its partition."""
        partition_options = {
            name: options.pop(name)
            for name in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
            if name in options
        }
        partition = FetchPartition(
            partition=options.pop("index", 0),
            fetch_offset=offset,
            **{"partition_max_bytes": 1 << 20, **partition_options},
        )
        topic = FetchTopic(topic=self.name, topic_id=options.pop("topic_id", self.id), partitions=[partition])
        return FetchRequest(**{"max_wait_ms": 100, "min_bytes": 0, "max_bytes": 1 << 22, "topics": [topic], **options})

    def fetch(self, offset: int, version: int = 16, **options: Any) -> dict[str, Any]:
        """The whole response, without the topic's name and id, and with records as bytes."""
        return plain_fetch(self.client.call(self.fetch_request(offset, **options), version))

    def offset_at(self, timestamp: int, version: int = 11, **options: Any) -> dict[str, Any]:
        """ListOffsets for one partition."""
        partition = ListOffsetsPartition(
            partition_index=options.pop("index", 0),
            timestamp=timestamp,
            current_leader_epoch=options.pop("current_leader_epoch", -1),
        )
        topic = ListOffsetsTopic(name=options.pop("name", self.name), partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic], **options)
        found: dict[str, Any] = plain(self.client.call(request, version).topics[0].partitions[0])
        return found


def plain_fetch(response: Any) -> dict[str, Any]:
    """A Fetch response without topic names and ids, and with session ids reduced to 0 or 1."""
    fields: dict[str, Any] = plain(response)
    fields["session_id"] = min(fields["session_id"], 1)
    for topic in fields["responses"]:
        del topic["topic"], topic["topic_id"]
    return fields


def plain(value: Any) -> Any:
    """A message as dicts and lists, with varying times reduced to whether they are present."""
    if isinstance(value, Struct):
        fields = {name: plain(getattr(value, name)) for name in value.__slots__}
        for name in _TIMES:
            if name in fields:
                fields[name] = fields[name] >= 0
        return fields
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value


def outcome(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of a call, or "closed" if the broker closed the connection."""
    try:
        return function(*arguments, **options)
    except ConnectionError:
        return "closed"


def versions(lowest: int, highest: int) -> Iterable[int]:
    """All versions from the lowest to the highest."""
    return range(lowest, highest + 1)
