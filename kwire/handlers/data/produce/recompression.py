"""Large batches that the broker has to compress anew (`compression.type` of the topic): a helper process does it.

On the event loop, a batch of 10 MB would hold up all other clients for half a second. Small batches are compressed
where they are appended. What lives elsewhere: the process (`kwire.log.partition.recompression`), appending
(`produce.handler`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kwire.base.errors import KafkaError, as_value
from kwire.handlers.authorization import is_topic_allowed
from kwire.log.partition.recompression import Recompression
from kwire.security.acls.operations import AclOperation

if TYPE_CHECKING:
    from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
    from kwire.handlers.context import RequestContext

LARGE_BYTES: Final = 16 * 1024
"""Batches up to this size take less time than it takes to hand them over."""

Work = list[tuple["PartitionProduceData", Recompression]]
"""The data of partitions, and what is to be done with each."""

Recompressed = dict[int, "memoryview | KafkaError"]
"""What to append in place of a partition's data, or why it is refused, by the `id` of that data."""


def large_recompressions(request: ProduceRequest, context: RequestContext) -> Work:
    """The large batches that have to be compressed anew, on topics to which the client may write."""
    found: Work = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = cast("memoryview | None", data.records)
            if records is not None and len(records) > LARGE_BYTES:
                work = _recompression(topic, data.index, records, context)
                if work is not None:
                    found.append((data, work))
    return found


def _recompression(
    topic: TopicProduceData, index: int, records: memoryview, context: RequestContext
) -> Recompression | None:
    replicas = context.services.replicas
    name = replicas.topic_name(topic.topic_id) if context.api_version >= 13 else topic.name
    partition = None if name is None else replicas.get(name, index)
    if partition is None or not partition.leading:
        return None
    work = partition.log.recompression(records)
    if work is None or not is_topic_allowed(context, AclOperation.WRITE, partition.topic):
        return None
    return work


async def recompress(work: Work, context: RequestContext) -> Recompressed:
    """Compress the batches anew, one after the other."""
    recompressor = context.services.logs.recompressor
    found: Recompressed = {}
    for data, wanted in work:
        try:
            found[id(data)] = await recompressor.run(wanted)
        except KafkaError as error:
            found[id(data)] = as_value(error)
    return found
