"""Large batches that the broker has to compress anew (`compression.type` of the topic): a thread does it.

On the event loop, a batch of 10 MB would hold up all other clients for half a second. A thread computes in Python as
well, but the interpreter interrupts it as soon as the event loop has had to wait for half a millisecond. Small batches
are recompressed where they are appended. What lives elsewhere: appending (`produce.handler`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from kwire.base.errors import KafkaError
from kwire.handlers.authorization import is_topic_allowed
from kwire.security.acls.operations import AclOperation

if TYPE_CHECKING:
    from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
    from kwire.handlers.context import RequestContext

LARGE_BYTES: Final = 16 * 1024
"""Batches up to this size take less time than a thread needs to begin."""

SWITCH_S: Final = 0.0005
DEFAULT_SWITCH_S: Final = sys.getswitchinterval()
"""How long a thread may compute while another waits, during a recompression and otherwise. When the first of several
ends, the others are interrupted less often."""

Work = list[tuple["PartitionProduceData", Callable[[], memoryview]]]
"""The data of partitions, and what compresses each anew."""


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
) -> Callable[[], memoryview] | None:
    replicas = context.services.replicas
    name = replicas.topic_name(topic.topic_id) if context.api_version >= 13 else topic.name
    partition = None if name is None else replicas.get(name, index)
    if partition is None or not partition.leading:
        return None
    work = partition.log.recompression(records)
    if work is None or not is_topic_allowed(context, AclOperation.WRITE, partition.topic):
        return None
    return work


async def recompress(work: Work, context: RequestContext) -> None:
    """Put the compressed batches in the places of the others. One that is refused stays as it is: the append refuses
    it."""
    executor = context.services.doors.executor
    for data, function in work:
        try:
            data.records = await executor.run(_interrupted_often, function)
        except KafkaError:
            continue


def _interrupted_often(function: Callable[[], memoryview]) -> memoryview:
    """Call a function on this thread; the interpreter lets the event loop's thread continue after half a millisecond
    instead of five."""
    sys.setswitchinterval(SWITCH_S)
    try:
        return function()
    finally:
        sys.setswitchinterval(DEFAULT_SWITCH_S)
