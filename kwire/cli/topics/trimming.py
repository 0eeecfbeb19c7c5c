"""``kwire topic trim``: delete the oldest records, by DeleteRecords."""

from __future__ import annotations

import argparse

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import EARLIEST, Partition, leaders, list_offsets
from kwire.cli.groups.commits import existing_partitions
from kwire.cli.output import show
from kwire.cli.positions import resolve
from kwire.cli.topics.rows import TrimmedPartition
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


async def trim_topic(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Delete the records before a position; print where each partition begins now."""
    name, indexes = arguments.topic
    existing = await existing_partitions(cluster, {name})
    if not existing:
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
    chosen = [(name, index) for index in indexes] or existing
    for partition in chosen:
        if partition not in existing:
            raise CommandError(f"topic {name} has no partition {partition[1]}")
    before = await list_offsets(cluster, dict.fromkeys(chosen, EARLIEST))
    wanted = await resolve(cluster, dict.fromkeys(chosen, arguments.before))
    starts = wanted if arguments.dry_run else await _delete(cluster, wanted, int(arguments.timeout * 1000))
    rows = [TrimmedPartition(*each, before[each].offset, starts[each]) for each in sorted(chosen)]
    show(rows, arguments.output)
    return 0


async def _delete(cluster: Cluster, wanted: dict[Partition, int], timeout_ms: int) -> dict[Partition, int]:
    starts: dict[Partition, int] = {}

    async def delete_rest() -> None:
        rest = [each for each in wanted if each not in starts]
        for leader, partitions in (await leaders(cluster, rest)).items():
            topics = [
                DeleteRecordsTopic(
                    name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=wanted[topic, index])]
                )
                for topic, index in partitions
            ]
            response = await cluster.call(DeleteRecordsRequest(topics=_joined(topics), timeout_ms=timeout_ms), leader)
            for result in response.topics:
                for each in result.partitions:
                    check(each.error_code, f"{result.name}-{each.partition_index}")
                    starts[result.name, each.partition_index] = each.low_watermark

    await cluster.until_done(delete_rest)
    return starts


def _joined(topics: list[DeleteRecordsTopic]) -> list[DeleteRecordsTopic]:
    """The partitions of one topic in one entry."""
    found: dict[str, DeleteRecordsTopic] = {}
    for topic in topics:
        found.setdefault(topic.name, DeleteRecordsTopic(name=topic.name, partitions=[])).partitions.extend(
            topic.partitions
        )
    return list(found.values())
