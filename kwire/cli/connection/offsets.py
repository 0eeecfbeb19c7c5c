"""Offsets of partitions, asked of their leaders by ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1

Partition = tuple[str, int]


class Found(NamedTuple):
    """An offset, and the timestamp of its record in milliseconds (-1 for `LATEST` and `EARLIEST`)."""

    offset: int
    timestamp: int


async def list_offsets(
    cluster: Cluster, wanted: Mapping[Partition, int], *, committed: bool = False
) -> dict[Partition, Found]:
    """The offsets of partitions by timestamps in milliseconds, `LATEST` or `EARLIEST`; `NO_OFFSET` if no record is that
    late. ``committed``: the latest is the last stable offset. `CommandError` for a partition that does not exist."""
    found: dict[Partition, Found] = {}

    async def ask_rest() -> None:
        rest = [each for each in wanted if each not in found]
        for leader, partitions in (await leaders(cluster, rest)).items():
            response = await cluster.call(_request(partitions, wanted, committed), leader)
            found.update(_answers(response))

    await cluster.until_done(ask_rest)
    return found


def _request(partitions: Iterable[Partition], wanted: Mapping[Partition, int], committed: bool) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        timestamp = wanted[topic, index]
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    topics = [ListOffsetsTopic(name=topic, partitions=each) for topic, each in by_topic.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=topics)


def _answers(response: Any) -> dict[Partition, Found]:
    answers = {}
    for topic in response.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            answers[topic.name, each.partition_index] = Found(each.offset, each.timestamp)
    return answers


async def leaders(cluster: Cluster, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    """Partitions by the ids of their leaders. `CommandError` for those without a leader, which may have one soon."""
    wanted = list(partitions)
    metadata = await cluster.metadata(sorted({topic for topic, _ in wanted}))
    known: dict[Partition, int] = {}
    for topic in metadata.topics:
        check(topic.error_code, f"topic {topic.name}")
        for each in topic.partitions:
            known[topic.name, each.partition_index] = each.leader_id
    found: dict[int, list[Partition]] = {}
    for partition in wanted:
        if partition not in known:
            raise CommandError(f"topic {partition[0]} has no partition {partition[1]}")
        if known[partition] < 0:
            check(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition[0]}-{partition[1]}")
        found.setdefault(known[partition], []).append(partition)
    return found
