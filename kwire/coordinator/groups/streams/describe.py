"""StreamsGroupDescribe: the description of one streams group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.codec.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
)
from kwire.coordinator.groups.streams.group import StreamsGroup
from kwire.coordinator.groups.streams.member import StreamsMember, Tasks
from kwire.coordinator.groups.streams.topology.convert import describe as describe_topology
from kwire.coordinator.runtime.java_hash import hash_map_order, string_order, timeline_map_order


def describe(group: StreamsGroup) -> DescribedGroup:
    """The group with its topology and its members. Tasks that a member has to revoke are left out."""
    topology = group.topology
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if topology is None else describe_topology(topology, group.configured),
        members=[_member(group, group.members[one]) for one in timeline_map_order(list(group.members))],
    )


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint, tags = member.endpoint, member.client_tags
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id or "",
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=tags[key]) for key in hash_map_order(tags)],
        assignment=Assignment(
            active_tasks=_task_ids(member.assigned.active), standby_tasks=_task_ids(member.assigned.standby)
        ),
        target_assignment=_target(group.target_of(member.member_id)),
    )


def _target(tasks: Tasks) -> Assignment:
    return Assignment(active_tasks=_task_ids(tasks.active), standby_tasks=_task_ids(tasks.standby))


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=sorted(tasks[one])) for one in sorted(tasks, key=string_order)]
