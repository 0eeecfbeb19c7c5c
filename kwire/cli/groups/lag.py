"""``kwire group lag``: committed offsets beside the ends of the partitions."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import LATEST, list_offsets
from kwire.cli.groups.commits import committed_offsets, existing_partitions
from kwire.cli.groups.description import DescribedGroup, describe_group
from kwire.cli.output import show


class LagRow(NamedTuple):
    """A partition that the group has, or has committed. ``committed`` and ``lag`` are None without a commit."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None


async def show_lag(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Print the partitions in order."""
    group = arguments.group
    show(await lag_rows(cluster, group, await describe_group(cluster, group)), arguments.output)
    return 0


async def lag_rows(cluster: Cluster, group: str, described: DescribedGroup | None) -> list[LagRow]:
    """The partitions that a group has, or has committed, in order. `CommandError` if there is no such group."""
    committed = await committed_offsets(cluster, group)
    if not committed and described is None:
        raise CommandError(f"group {group}: there is no such group", ErrorCode.GROUP_ID_NOT_FOUND)
    assigned = set() if described is None else described.partitions
    topics = {topic for topic, _ in assigned | committed.keys()}
    partitions = await existing_partitions(cluster, topics)
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    rows = []
    for partition in sorted(partitions):
        offset, end = committed.get(partition), ends[partition].offset
        rows.append(LagRow(*partition, offset, end, None if offset is None else max(end - offset, 0)))
    return rows
