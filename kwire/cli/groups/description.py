"""Groups of all types (classic, consumer, share, streams), as their coordinators describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.connection.offsets import Partition
from kwire.codec.errors import CodecError
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.share_group_describe_request import ShareGroupDescribeRequest
from kwire.codec.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.codec.protocol import decode_record

CLASSIC: Final = "classic"
STREAMS: Final = "streams"
TYPES: Final = (CLASSIC, "consumer", "share", STREAMS)
DEAD: Final = "Dead"
_CONSUMER_PROTOCOL: Final = "consumer"
_REQUESTS: Final = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    STREAMS: StreamsGroupDescribeRequest,
}


class GroupRow(NamedTuple):
    """A group of ``list``. ``coordinator``: a broker's id."""

    group: str
    type: str
    protocol: str
    state: str
    coordinator: int


class AssignedTopic(NamedTuple):
    """Partitions that a member has; of a streams group, tasks by subtopology."""

    topic: str
    partitions: list[int]

    def __str__(self) -> str:
        return f"{self.topic}:{'+'.join(map(str, self.partitions))}"


class MemberRow(NamedTuple):
    """A member. ``instance``: its group.instance.id."""

    member: str
    instance: str | None
    client: str
    host: str
    assigned: list[AssignedTopic]


class DescribedGroup(NamedTuple):
    """A group of ``describe``. ``epoch``: None for classic groups."""

    group: str
    type: str
    state: str
    assignor: str
    epoch: int | None
    coordinator: int
    members: list[MemberRow]

    @property
    def partitions(self) -> set[Partition]:
        """What the members have, unless it is a streams group."""
        if self.type == STREAMS:
            return set()
        return {(each.topic, index) for member in self.members for each in member.assigned for index in each.partitions}


async def list_groups(cluster: Cluster, nodes: Iterable[int], states: list[str], types: list[str]) -> list[GroupRow]:
    """The groups of these coordinators, in alphabetical order."""
    rows = []
    for node in nodes:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        response = await cluster.until_done(lambda: _listed(cluster, request, node))  # noqa: B023
        rows += [
            GroupRow(
                each.group_id, (each.group_type or CLASSIC).lower(), each.protocol_type or "", each.group_state, node
            )
            for each in response.groups
        ]
    return sorted(rows)


async def _listed(cluster: Cluster, request: ListGroupsRequest, node: int) -> Any:
    response = await cluster.call(request, node)
    check(response.error_code, f"broker {node}")
    return response


async def describe_group(cluster: Cluster, group: str) -> DescribedGroup | None:
    """A group; None if there is none with this id. `CommandError`."""
    coordinator = await cluster.coordinator(group)
    found = [each for each in await list_groups(cluster, [coordinator], [], []) if each.group == group]
    kind = found[0].type if found else CLASSIC
    if kind == CLASSIC:
        return await _classic(cluster, group, coordinator)
    described = await _described(cluster, group, _REQUESTS[kind](group_ids=[group]))
    return _group(described, kind, coordinator)


async def describe_at(cluster: Cluster, node: int, kind: str, groups: list[str]) -> list[DescribedGroup]:
    """Groups of one type as a coordinator describes them, at once; without those that it refuses to describe."""
    request = DescribeGroupsRequest(groups=groups) if kind == CLASSIC else _REQUESTS[kind](group_ids=groups)
    response = await cluster.call(request, node)
    found = []
    for each in response.groups:
        if not each.error_code:
            group = _classic_group(each, node) if kind == CLASSIC else _group(each, kind, node)
            if group is not None:
                found.append(group)
    return found


def _group(described: Any, kind: str, coordinator: int) -> DescribedGroup | None:
    """A group in the response of its type's request. `CommandError`."""
    group = described.group_id
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(described.error_code, f"group {group}", described.error_message)
    assignor = "" if kind == STREAMS else described.assignor_name
    members = [_member(each, list(_assigned(each.assignment, kind))) for each in described.members]
    return DescribedGroup(group, kind, described.group_state, assignor, described.group_epoch, coordinator, members)


async def _classic(cluster: Cluster, group: str, coordinator: int) -> DescribedGroup | None:
    return _classic_group(await _described(cluster, group, DescribeGroupsRequest(groups=[group])), coordinator)


def _classic_group(described: Any, coordinator: int) -> DescribedGroup | None:
    """A group in a DescribeGroups response. `CommandError`."""
    group = described.group_id
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or described.group_state == DEAD:
        return None
    check(described.error_code, f"group {group}")
    consumers = described.protocol_type == _CONSUMER_PROTOCOL
    members = [
        MemberRow(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _decoded(bytes(each.member_assignment)) if consumers else [],
        )
        for each in described.members
    ]
    return DescribedGroup(
        group, CLASSIC, described.group_state, described.protocol_data, None, coordinator, sorted(members)
    )


async def _described(cluster: Cluster, group: str, request: Any) -> Any:
    response = await cluster.at_coordinator(group, request, lambda response: response.groups[0].error_code)
    return response.groups[0]


def _member(member: Any, assigned: list[AssignedTopic]) -> MemberRow:
    instance = getattr(member, "instance_id", None)  # members of share groups have none
    return MemberRow(member.member_id, instance, member.client_id, member.client_host, assigned)


def _assigned(assignment: Any, kind: str) -> Iterator[AssignedTopic]:
    if kind == STREAMS:
        for tasks in assignment.active_tasks:
            yield AssignedTopic(tasks.subtopology_id, sorted(tasks.partitions))
        return
    for topic in sorted(assignment.topic_partitions, key=lambda each: str(each.topic_name)):
        yield AssignedTopic(topic.topic_name, sorted(topic.partitions))


def _decoded(content: bytes) -> list[AssignedTopic]:
    """A member's assignment; nothing if it is not as consumers have it."""
    try:
        assignment = decode_record(ConsumerProtocolAssignment, content) if content else ConsumerProtocolAssignment()
    except CodecError:
        return []
    return sorted(AssignedTopic(each.topic, sorted(each.partitions)) for each in assignment.assigned_partitions)
