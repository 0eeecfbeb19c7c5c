"""Offsets and bytes of partitions, as far as brokers answer: one that is gone has none, and holds nothing up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import EARLIEST, LATEST, Partition
from kwire.codec.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

T = TypeVar("T")

BROKER_S = 3.0
"""Seconds for one broker of several."""


async def in_time(asking: Awaitable[T]) -> T | None:
    """What a broker answers; None if it does not, or too late."""
    try:
        async with asyncio.timeout(BROKER_S):
            return await asking
    except (CommandError, TimeoutError):
        return None


async def of_brokers(
    cluster: Cluster, calls: Iterable[tuple[int, Any]], max_version: int | None = None
) -> dict[int, Any]:
    """The responses of brokers, each to its request; without those that do not answer in time."""
    asked = list(calls)
    answers = await asyncio.gather(*(in_time(cluster.call(request, node, max_version)) for node, request in asked))
    return {node: answer for (node, _), answer in zip(asked, answers, strict=True) if answer is not None}


async def offsets(cluster: Cluster, topics: Iterable[Any]) -> dict[Partition, tuple[int, int]]:
    """First offset and end of the partitions in a Metadata response, where leaders answer."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for each in topic.partitions:
            if each.leader_id >= 0:
                by_leader.setdefault(each.leader_id, {}).setdefault(topic.name, []).append(each.partition_index)
    starts, ends = [
        await of_brokers(cluster, [(node, _request(each, timestamp)) for node, each in by_leader.items()])
        for timestamp in (EARLIEST, LATEST)
    ]
    first, end = _found(starts), _found(ends)
    return {each: (first[each], end[each]) for each in first if each in end}


def _request(partitions: dict[str, list[int]], timestamp: int) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in indexes]
        )
        for name, indexes in partitions.items()
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)


def _found(answers: dict[int, Any]) -> dict[Partition, int]:
    return {
        (topic.name, each.partition_index): each.offset
        for answer in answers.values()
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }


async def log_dirs(cluster: Cluster, topics: Iterable[Any] | None) -> dict[int, Any]:
    """DescribeLogDirs of all brokers that answer, for topics of a Metadata response or for all; by broker id."""
    wanted = None
    if topics is not None:
        wanted = [
            DescribableLogDirTopic(topic=topic.name, partitions=[each.partition_index for each in topic.partitions])
            for topic in topics
        ]
    return await of_brokers(
        cluster, [(node, DescribeLogDirsRequest(topics=wanted)) for node in sorted(await cluster.nodes())]
    )


def bytes_of_leaders(topics: Iterable[Any], answers: dict[int, Any]) -> dict[Partition, int]:
    """The size of each partition at its leader."""
    sizes = {
        (node, topic.name, each.partition_index): each.partition_size
        for node, answer in answers.items()
        for directory in answer.results
        for topic in directory.topics
        for each in topic.partitions
        if not each.is_future_key
    }
    found = {}
    for topic in topics:
        for each in topic.partitions:
            size = sizes.get((each.leader_id, topic.name, each.partition_index))
            if size is not None:
                found[topic.name, each.partition_index] = size
    return found
