"""What StreamsGroupHeartbeat must satisfy whatever the state of the group, and what depends on one member's tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.groups.streams.member import STATIC_LEAVE_EPOCH, StreamsMember
from kwire.coordinator.groups.streams.topology.checks import check_supported, check_topology

if TYPE_CHECKING:
    from kwire.codec.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, TaskIds
    from kwire.coordinator.groups.streams.topology.configured import ConfiguredSubtopology

_ALL_KINDS = "If one task-type is non-null, all must be non-null."


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY, in the order of Kafka's checks: first what Kafka 4.3 does not
    support yet."""
    _check_supported(request)
    _check_texts(request)
    if request.member_epoch == 0:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    kinds = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if any(tasks is not None for tasks in kinds) and any(tasks is None for tasks in kinds):
        raise invalid(_ALL_KINDS)
    if request.member_epoch != 0 and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise invalid("WarmupTasks are not supported yet.")
    if request.topology is not None:
        check_supported(request.topology)


def _check_texts(request: StreamsGroupHeartbeatRequest) -> None:
    for name, text in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise invalid(f"{name} can't be empty.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise invalid("Topology must be non-null when (re-)joining.")
    check_topology(request.topology)


def check_tasks(tasks: list[TaskIds] | None, subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    """Raises INVALID_REQUEST unless all tasks exist."""
    for one in tasks or ():
        subtopology = subtopologies.get(one.subtopology_id)
        if subtopology is None:
            raise invalid(f"Subtopology {one.subtopology_id} does not exist in the topology.")
        for partition in one.partitions:
            if not 0 <= partition < subtopology.tasks:
                raise invalid(
                    f"Task {partition} for subtopology {one.subtopology_id} is invalid."
                    f" Number of tasks for this subtopology: {subtopology.tasks}"
                )


def check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the epoch is the member's. The previous epoch is accepted, too, if the response
    with the newer one may have been lost and the member reports no task outside its assignment."""
    epoch = request.member_epoch
    if epoch in (0, member.epoch):
        return
    lost_response = (
        epoch < member.epoch
        and epoch == member.previous_epoch
        and _is_part_of(request.active_tasks, member.assigned.active)
        and _is_part_of(request.standby_tasks, member.assigned.standby)
        and _is_part_of(request.warmup_tasks, {})
    )
    if not lost_response:
        kind = "greater" if epoch > member.epoch else "smaller"
        message = (
            f"The streams group member has a {kind} member epoch ({epoch}) than the one known by the group coordinator"
            f" ({member.epoch}). The member must abandon all its partitions and rejoin."
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_part_of(tasks: list[TaskIds] | None, assigned: Mapping[str, Collection[int]]) -> bool:
    if tasks is None:
        return False
    return all(
        one.subtopology_id in assigned
        and all(partition in assigned[one.subtopology_id] for partition in one.partitions)
        for one in tasks
    )


def invalid(message: str) -> KafkaError:
    """INVALID_REQUEST."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
