"""What a raw fetch gives: the very bytes that a broker sends for a partition."""

from __future__ import annotations

from typing import Final

from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.records import parse_header

EARLIEST: Final = -2
LATEST: Final = -1
_FETCH: Final = 12  # the last version with topics' names
_LIST_OFFSETS: Final = 7
_METADATA: Final = 12
_BYTES: Final = 1024 * 1024


def offset(client: WireClient, topic: str, partition: int, which: int) -> int:
    """The first offset of a partition, or its high watermark."""
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=which)])
    [found] = client.call(ListOffsetsRequest(replica_id=-1, topics=[wanted]), _LIST_OFFSETS).topics[0].partitions
    assert found.error_code == ErrorCode.NONE, found
    return int(found.offset)


def topic_ids(client: WireClient) -> dict[str, tuple[bytes, int]]:
    """The id and the number of partitions of each topic."""
    response = client.call(MetadataRequest(topics=None), _METADATA)
    return {each.name: (bytes(each.topic_id), len(each.partitions)) for each in response.topics}


def fetched(client: WireClient, topic: str, partition: int, start: int, end: int) -> bytes:
    """The batches from an offset to before another one."""
    parts = []
    while start < end:
        wanted = FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=partition, fetch_offset=start, partition_max_bytes=_BYTES)],
        )
        request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=_BYTES, topics=[wanted])
        [found] = client.call(request, _FETCH).responses[0].partitions
        assert found.error_code == ErrorCode.NONE, found
        data, at = bytes(found.records or b""), 0
        before = start
        while at + 61 <= len(data) and start < end:
            header = parse_header(memoryview(data), at)
            if at + header.size > len(data) or header.base_offset >= end:
                start = end if header.base_offset >= end else start
                break
            parts.append(data[at : at + header.size])
            at += header.size
            start = header.next_offset
        if start == before:
            break  # nothing follows: compaction has removed the rest
    return b"".join(parts)
