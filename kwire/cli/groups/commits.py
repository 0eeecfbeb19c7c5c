"""What a group has committed, and the partitions there are."""

from __future__ import annotations

from collections.abc import Container

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.connection.offsets import Partition
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

_BY_TOPIC_ID = 10


async def committed_offsets(cluster: Cluster, group: str) -> dict[Partition, int]:
    """The offsets that a group has committed."""
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    request = OffsetFetchRequest(groups=groups)
    response = await cluster.at_coordinator(
        group, request, lambda response: response.groups[0].error_code, max_version=_BY_TOPIC_ID - 1
    )
    found = response.groups[0]
    check(found.error_code, f"group {group}")
    committed = {}
    for topic in found.topics:
        for each in topic.partitions:
            check(each.error_code, f"group {group}, {topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                committed[topic.name, each.partition_index] = each.committed_offset
    return committed


async def existing_partitions(
    cluster: Cluster, topics: set[str], only: Container[Partition] | None = None
) -> list[Partition]:
    """All partitions of those topics that exist. ``only``: no others than these."""
    if not topics:
        return []
    metadata = await cluster.metadata(sorted(topics))
    existing = [
        (topic.name, each.partition_index)
        for topic in metadata.topics
        if not topic.error_code
        for each in topic.partitions
    ]
    return existing if only is None else [each for each in existing if each in only]
