"""Groups: their list, one of them with members and lag, and those that read a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import Partition
from kwire.cli.groups.commits import committed_offsets
from kwire.cli.groups.description import TYPES, DescribedGroup, GroupRow, describe_at, describe_group, list_groups
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.console.api.sizes import in_time, of_brokers, offsets
from kwire.console.calls import Call
from kwire.console.failures import unknown
from kwire.console.records.places import topic_metadata

DESCRIBED_MAX: Final = 500
"""Groups of a coordinator whose members are asked at once."""
_OFFSET_FETCH_VERSION: Final = 9
"""The last version of OffsetFetch that names topics; those after it have their ids."""


class ListedGroup(NamedTuple):
    """A group of the list. ``members``: None if their number is not known."""

    group: str
    type: str
    state: str
    protocol: str
    members: int | None
    coordinator: int


class MemberPartition(NamedTuple):
    """A partition that a member has."""

    topic: str
    partition: int


class Member(NamedTuple):
    """A member. ``partitions``: of a streams group none, but ``tasks`` by subtopology."""

    id: str
    client_id: str
    host: str
    instance: str | None
    partitions: list[MemberPartition]
    tasks: list[MemberPartition]


class LagRow(NamedTuple):
    """A partition that the group has, or has committed. None: nothing is committed, or the leader does not answer."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None


class Group(NamedTuple):
    """A group."""

    group: str
    type: str
    state: str
    coordinator: int | None
    assignor: str
    epoch: int | None
    members: list[Member]
    lag: list[LagRow]


class TopicGroup(NamedTuple):
    """A group that reads a topic, or has committed in it. ``members``: those that have a partition of it."""

    group: str
    type: str
    state: str
    lag: int | None
    members: int


async def all_groups(cluster: Cluster) -> list[GroupRow]:
    """The groups of all coordinators that answer, in alphabetical order."""

    metadata = await cluster.metadata([])
    found = await asyncio.gather(*(in_time(list_groups(cluster, [each.node_id], [], [])) for each in metadata.brokers))
    return sorted(row for rows in found for row in rows or ())


async def described(cluster: Cluster, rows: Iterable[GroupRow]) -> dict[str, DescribedGroup]:
    """Groups with their members, as far as coordinators answer, by group id."""
    chosen: dict[tuple[int, str], list[str]] = {}
    for each in rows:
        if each.type in TYPES:
            names = chosen.setdefault((each.coordinator, each.type), [])
            if len(names) < DESCRIBED_MAX:
                names.append(each.group)

    found = await asyncio.gather(
        *(in_time(describe_at(cluster, node, kind, names)) for (node, kind), names in chosen.items())
    )
    return {group.group: group for groups in found for group in groups or ()}


async def list_all(cluster: Cluster, call: Call) -> list[ListedGroup]:
    """All groups with their numbers of members."""
    rows = await all_groups(cluster)
    found = await described(cluster, rows)
    return [
        ListedGroup(
            each.group,
            each.type,
            found[each.group].state if each.group in found and not each.state else each.state,
            each.protocol,
            len(found[each.group].members) if each.group in found else None,
            each.coordinator,
        )
        for each in rows
    ]


async def one_group(cluster: Cluster, call: Call) -> Group:
    """A group with members and lag. `CommandError`, `Refusal`."""
    name = call.path["group"]
    group = await describe_group(cluster, name)
    owners: dict[Partition, str] = {}
    members = []
    for each in group.members if group else ():
        pairs = [MemberPartition(topic.topic, index) for topic in each.assigned for index in topic.partitions]
        is_streams = group is not None and group.type == "streams"
        members.append(
            Member(
                each.member,
                each.client,
                each.host,
                each.instance,
                [] if is_streams else pairs,
                pairs if is_streams else [],
            )
        )
        if not is_streams:
            owners.update((pair, each.member) for pair in pairs)
    lag = await lag_rows(cluster, name, group, owners)
    if group is None:
        if not lag:
            raise unknown("group", f"group {name}: there is no such group")
        return Group(name, "classic", "Empty", None, "", None, [], lag)
    return Group(name, group.type, group.state, group.coordinator, group.assignor, group.epoch, members, lag)


async def lag_rows(
    cluster: Cluster, name: str, group: DescribedGroup | None, owners: dict[Partition, str]
) -> list[LagRow]:
    """The partitions that a group has or has committed, in order; share groups commit nothing of this kind."""
    committed: dict[Partition, int] = {}
    if group is None or group.type != "share":
        try:
            committed = await committed_offsets(cluster, name)
        except CommandError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
    wanted = committed.keys() | (set() if group is None else group.partitions)
    if not wanted:
        return []
    topics = [
        each for each in (await cluster.metadata(sorted({name for name, _ in wanted}))).topics if not each.error_code
    ]
    existing = {(topic.name, each.partition_index) for topic in topics for each in topic.partitions}
    ends = {each: end for each, (_, end) in (await offsets(cluster, topics)).items()}
    return [
        LagRow(*each, committed.get(each), ends.get(each), _lag(committed.get(each), ends.get(each)), owners.get(each))
        for each in sorted(wanted)
        if each in existing
    ]


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(end - committed, 0)


async def topic_groups(cluster: Cluster, call: Call) -> list[TopicGroup]:
    """The groups that read a topic or have committed in it. `CommandError`."""
    topic = await topic_metadata(cluster, call.path["topic"])
    indexes = sorted(each.partition_index for each in topic.partitions)
    rows = await all_groups(cluster)
    found = await described(cluster, rows)
    commits = await _committed_in(cluster, topic.name, indexes, [each for each in rows if each.type != "share"])
    ends = {each: end for each, (_, end) in (await offsets(cluster, [topic])).items()}
    groups = []
    for each in rows:
        members = _members_of(found.get(each.group), topic.name)
        mine = commits.get(each.group, {})
        if not members and not mine:
            continue
        lags = [_lag(offset, ends.get((topic.name, index))) for index, offset in mine.items()]
        known = [lag for lag in lags if lag is not None]
        lag = sum(known) if mine and len(known) == len(lags) else None
        groups.append(TopicGroup(each.group, each.type, each.state, lag, members))
    return groups


def _members_of(group: DescribedGroup | None, topic: str) -> int:
    if group is None:
        return 0
    return sum(any(each.topic == topic and each.partitions for each in member.assigned) for member in group.members)


async def _committed_in(
    cluster: Cluster, topic: str, indexes: list[int], rows: Iterable[GroupRow]
) -> dict[str, dict[int, int]]:
    """The offsets that groups have committed in a topic, by group and partition."""
    by_node: dict[int, list[Any]] = {}
    wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)]
    for each in rows:
        by_node.setdefault(each.coordinator, []).append(OffsetFetchRequestGroup(group_id=each.group, topics=wanted))
    requests = [(node, OffsetFetchRequest(groups=groups)) for node, groups in by_node.items()]
    found: dict[str, dict[int, int]] = {}
    for answer in (await of_brokers(cluster, requests, _OFFSET_FETCH_VERSION)).values():
        for group in answer.groups:
            for each in group.topics:
                offsets_of = {
                    part.partition_index: part.committed_offset
                    for part in each.partitions
                    if part.committed_offset >= 0 and not part.error_code
                }
                if offsets_of:
                    found[group.group_id] = offsets_of
    return found
