"""The target assignment of a streams group: when a new one is computed, and its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.coordinator.assignors.streams.model import StreamsGroupSpec, StreamsMemberSpec, SubtopologySpec
from kwire.coordinator.groups.streams import records as streams_records
from kwire.coordinator.groups.streams.group import StreamsGroup
from kwire.coordinator.groups.streams.member import NO_TASKS, StreamsMember, Tasks
from kwire.coordinator.groups.streams.settings import STANDBY_REPLICAS
from kwire.coordinator.runtime.java_hash import hash_map_order, timeline_map_order

if TYPE_CHECKING:
    from kwire.coordinator.groups.streams.topology.configured import ConfiguredTopology
    from kwire.coordinator.runtime.machine import CoordinatorRecord


class NewTarget(NamedTuple):
    """A target assignment for all members, and the records that store what has changed."""

    tasks: Mapping[str, Tasks]
    records: list[CoordinatorRecord]


def new_target(
    group: StreamsGroup,
    epoch: int,
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
    wall_ms: int,
    updated: StreamsMember | None = None,
) -> NewTarget:
    """Assign the tasks of a topology, none unless it is ready, to the members of the group as if ``updated`` was
    already in it."""
    members = dict(group.members)
    if updated is not None:
        members[updated.member_id] = updated
    tasks = _assign(group, members, configured, configs)
    records = [
        streams_records.target(group.group_id, member_id, tasks[member_id])
        for member_id in hash_map_order(tasks)
        if group.target.get(member_id) != tasks[member_id]
    ]
    records.append(streams_records.target_epoch(group.group_id, epoch, wall_ms))
    return NewTarget(tasks, records)


def _assign(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
) -> dict[str, Tasks]:
    if not configured.ready or configured.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    from kwire.coordinator.assignors.streams.sticky import assign_sticky  # imported here: few groups need it

    order = dict.fromkeys([*timeline_map_order(list(group.members)), *members])
    specs = {member_id: _member_spec(members[member_id], group.target_of(member_id)) for member_id in order}
    subtopologies = {
        one: SubtopologySpec(subtopology.tasks, subtopology.stateful)
        for one, subtopology in configured.subtopologies.items()
    }
    assigned = assign_sticky(StreamsGroupSpec(specs, int(configs.get(STANDBY_REPLICAS, "0"))), subtopologies)
    return {
        member_id: Tasks(
            {one: frozenset(partitions) for one, partitions in tasks.active.items() if partitions},
            {one: frozenset(partitions) for one, partitions in tasks.standby.items() if partitions},
        )
        for member_id, tasks in assigned.items()
    }


def _member_spec(member: StreamsMember, last: Tasks) -> StreamsMemberSpec:
    return StreamsMemberSpec(member.process_id or "", last.active, last.standby)
