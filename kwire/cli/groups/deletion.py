"""``kwire group delete`` and ``kwire group delete-offsets``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli import fail
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check, describe_error
from kwire.cli.groups.commits import committed_offsets
from kwire.cli.output import show
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


class DeletedGroup(NamedTuple):
    """A group of ``delete``."""

    group: str


class DeletedOffset(NamedTuple):
    """A partition of ``delete-offsets``."""

    topic: str
    partition: int


async def delete(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Delete groups; each that fails is named in a line."""
    deleted, status = [], 0
    for group in dict.fromkeys(arguments.groups):
        code = await delete_group(cluster, group)
        if code == ErrorCode.GROUP_ID_NOT_FOUND and arguments.if_exists:
            continue
        if code:
            status = fail(f"group {group}: {describe_error(code)}")
        else:
            deleted.append(DeletedGroup(group))
    if arguments.output != "table":
        show(deleted, arguments.output)
    else:
        for each in deleted:
            print(f"{each.group}: deleted")
    return status


async def delete_group(cluster: Cluster, group: str) -> int:
    """Delete a group; the error code of its coordinator."""
    request = DeleteGroupsRequest(groups_names=[group])
    response = await cluster.at_coordinator(group, request, lambda response: response.results[0].error_code)
    return int(response.results[0].error_code)


async def delete_offsets(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Delete the offsets that a group has committed in topics it does not subscribe to."""
    group = arguments.group
    deleted, status = [], 0
    for topic, index, code in await delete_group_offsets(cluster, group, arguments.topic):
        if code:
            status = fail(f"group {group}, {topic}-{index}: {describe_error(code)}")
        else:
            deleted.append(DeletedOffset(topic, index))
    show(sorted(deleted), arguments.output)
    return status


async def delete_group_offsets(
    cluster: Cluster, group: str, chosen: Iterable[tuple[str, list[int]]]
) -> list[tuple[str, int, int]]:
    """Delete what a group has committed in topics, in all of their partitions if none are named; topics, partitions and
    error codes. `CommandError`."""
    committed = await committed_offsets(cluster, group)
    topics = []
    for name, indexes in chosen:
        wanted = indexes or sorted(index for topic, index in committed if topic == name)
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in wanted]
        topics.append(OffsetDeleteRequestTopic(name=name, partitions=partitions))
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    response = await cluster.at_coordinator(group, request, lambda response: response.error_code)
    check(response.error_code, f"group {group}")
    return [
        (topic.name, each.partition_index, each.error_code) for topic in response.topics for each in topic.partitions
    ]
