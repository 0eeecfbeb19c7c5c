"""``kwire group seek``: other committed offsets for a group without members."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import Partition
from kwire.cli.groups.commits import committed_offsets, existing_partitions
from kwire.cli.groups.description import CLASSIC, TYPES, DescribedGroup, describe_group
from kwire.cli.output import show
from kwire.cli.positions import Position, resolve
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

_BY_TOPIC_ID = 10
SEEKABLE = (CLASSIC, "consumer")
EMPTY = "Empty"


class SeekRow(NamedTuple):
    """A partition. ``committed``: before, None without a commit."""

    topic: str
    partition: int
    committed: int | None
    new: int


async def seek(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Show where the group would go on; with ``--execute`` commit it."""
    rows = await sought(cluster, arguments.group, arguments.topic, arguments.to, execute=arguments.execute)
    show(rows, arguments.output)
    if not arguments.execute:
        print("nothing is changed yet: add --execute", file=sys.stderr)
    return 0


async def sought(
    cluster: Cluster, group: str, topics: list[tuple[str, list[int]]], to: Position, *, execute: bool
) -> list[SeekRow]:
    """Where a group would go on in topics (with all of their partitions, if none are named; in all that it has
    committed, if there are no topics); ``execute``: commit it. `CommandError`."""
    check_idle(group, await describe_group(cluster, group))
    committed = await committed_offsets(cluster, group)
    partitions = await _chosen(cluster, topics, committed, group)
    offsets = await resolve(cluster, dict.fromkeys(partitions, to))
    if execute:
        await _commit(cluster, group, offsets)
    return [SeekRow(*each, committed.get(each), offsets[each]) for each in sorted(offsets)]


def check_idle(group: str, described: DescribedGroup | None) -> None:
    """`CommandError` if a group has members, or keeps no offsets in the way of consumers."""
    if described is None:
        return
    if described.type not in SEEKABLE:
        assert described.type in TYPES
        raise CommandError(f"group {group} is a {described.type} group, whose offsets this command does not change")
    if described.state != EMPTY:
        count = len(described.members)
        members = "a member" if count == 1 else f"{count} members"
        raise CommandError(
            f"group {group} has {members} ({described.state}): stop them first", ErrorCode.NON_EMPTY_GROUP
        )


async def _chosen(
    cluster: Cluster, topics: list[tuple[str, list[int]]], committed: Mapping[Partition, int], group: str
) -> list[Partition]:
    """The partitions that the command line names; without one, those that the group has committed."""
    if not topics:
        if not committed:
            raise CommandError(f"group {group} has committed nothing: name what to seek in with --topic")
        return await existing_partitions(cluster, {topic for topic, _ in committed}, only=committed)
    found: list[Partition] = []
    for name, indexes in topics:
        existing = await existing_partitions(cluster, {name})
        if not existing:
            check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
        for index in indexes:
            if (name, index) not in existing:
                raise CommandError(f"topic {name} has no partition {index}")
        found += [(name, index) for index in indexes] or existing
    return found


async def _commit(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        )
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()]
    )
    response = await cluster.at_coordinator(
        group,
        request,
        lambda response: response.topics[0].partitions[0].error_code,
        max_version=_BY_TOPIC_ID - 1,
    )
    for topic in response.topics:
        for each in topic.partitions:
            if each.error_code == ErrorCode.UNKNOWN_MEMBER_ID:  # somebody has joined meanwhile
                raise CommandError(f"group {group} has members: stop them first", each.error_code)
            check(each.error_code, f"group {group}, {topic.name}-{each.partition_index}")
