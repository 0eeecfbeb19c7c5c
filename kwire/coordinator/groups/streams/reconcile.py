"""Reconciliation of a member: from its current tasks to its target assignment, one step at a time.

A member first revokes tasks, then gets those that other processes have revoked. This is a pure function of the member,
of the tasks that it reports, and of the present owners. Two processes never run one active task, and no process has a
task twice. UNREVOKED_TASKS lasts until a heartbeat no longer reports the tasks to revoke.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.groups.streams.member import MemberState, OwnedTasks, Partitions, StreamsMember, Tasks
from kwire.coordinator.groups.streams.owners import TaskOwners

Epochs = Mapping[str, Mapping[int, int]]


class Goal(NamedTuple):
    """The target of a member and the facts that decide how far it gets. ``reported``: the tasks in its heartbeat, None
    if the heartbeat does not report them."""

    epoch: int
    target: Tasks
    owners: TaskOwners
    reported: Tasks | None


class _Difference(NamedTuple):
    """One kind of tasks: those that stay, that have to go, that are free to take; and whether others have to wait."""

    keep: dict[str, dict[int, int]]
    give: dict[str, dict[int, int]]
    take: dict[str, dict[int, int]]
    must_wait: bool


def reconcile(member: StreamsMember, goal: Goal) -> StreamsMember:
    """The member after one step; an equal one if nothing changes. Raises FENCED_MEMBER_EPOCH if its state in the log is
    unknown to this version."""
    if member.state is MemberState.STABLE:
        return member if member.epoch == goal.epoch else _towards(member, member.epoch, goal)
    if member.state is MemberState.UNREVOKED_TASKS:
        if _still_has(member.revoking, goal.reported):
            return member
        return _towards(member, member.epoch + 1, goal)
    if member.state is MemberState.UNKNOWN:
        if goal.reported is None or any(goal.reported):
            message = (
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
            )
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        return _towards(member, goal.epoch, goal)
    return _towards(member, member.epoch, goal)


def _still_has(revoking: OwnedTasks, reported: Tasks | None) -> bool:
    """Whether the member still has one of these tasks. If it has not reported its tasks, it may."""
    if reported is None:
        return True
    return _overlap(revoking.active, reported.active) or _overlap(revoking.standby, reported.standby)


def _overlap(owned: Mapping[str, Mapping[int, int] | frozenset[int]], reported: Partitions) -> bool:
    return any(
        partition in owned.get(subtopology_id, ())
        for subtopology_id, partitions in reported.items()
        for partition in partitions
    )


def _towards(member: StreamsMember, revoking_epoch: int, goal: Goal) -> StreamsMember:
    """One step towards the target assignment. A member that has to revoke tasks is in ``revoking_epoch`` meanwhile."""
    owners, process_id = goal.owners, member.process_id

    def is_active_taken(subtopology_id: str, partition: int) -> bool:
        return owners.active(subtopology_id, partition) is not None or owners.is_standby(
            subtopology_id, partition, process_id
        )

    def is_standby_taken(subtopology_id: str, partition: int) -> bool:
        return owners.active(subtopology_id, partition) == process_id or owners.is_standby(
            subtopology_id, partition, process_id
        )

    active = _difference(member.assigned.active, goal.target.active, goal.epoch, is_active_taken)
    standby = _difference(_with_epochs(member.assigned.standby), goal.target.standby, goal.epoch, is_standby_taken)
    revoking = OwnedTasks(active.give, _without_epochs(standby.give))
    if not revoking.is_empty and _still_has(revoking, goal.reported):
        assigned = OwnedTasks(active.keep, _without_epochs(standby.keep))
        return member.at_epoch(revoking_epoch)._replace(
            state=MemberState.UNREVOKED_TASKS, assigned=assigned, revoking=revoking
        )
    must_wait = active.must_wait or standby.must_wait
    return member.at_epoch(goal.epoch)._replace(
        state=MemberState.UNRELEASED_TASKS if must_wait else MemberState.STABLE,
        assigned=OwnedTasks(_joined(active), _without_epochs(_joined(standby))),
        revoking=OwnedTasks({}, {}),
    )


def _difference(current: Epochs, target: Partitions, epoch: int, is_taken: Callable[[str, int], bool]) -> _Difference:
    found = _Difference({}, {}, {}, must_wait=False)
    must_wait = False
    for subtopology_id in dict.fromkeys((*target, *current)):
        wanted, owned = target.get(subtopology_id, frozenset()), current.get(subtopology_id, {})
        missing = sorted(wanted.difference(owned))
        free = [partition for partition in missing if not is_taken(subtopology_id, partition)]
        must_wait = must_wait or len(free) < len(missing)
        for part, tasks in (
            (found.keep, {partition: since for partition, since in owned.items() if partition in wanted}),
            (found.give, {partition: since for partition, since in owned.items() if partition not in wanted}),
            (found.take, dict.fromkeys(free, epoch)),
        ):
            if tasks:
                part[subtopology_id] = tasks
    return found._replace(must_wait=must_wait)


def _joined(difference: _Difference) -> dict[str, dict[int, int]]:
    """The tasks that stay and those that are free to take."""
    keep, take = difference.keep, difference.take
    return {one: {**keep.get(one, {}), **take.get(one, {})} for one in dict.fromkeys((*keep, *take))}


def _with_epochs(tasks: Partitions) -> Epochs:
    """Standby tasks as if they had epochs."""
    return {one: dict.fromkeys(partitions, 0) for one, partitions in tasks.items()}


def _without_epochs(tasks: Epochs) -> dict[str, frozenset[int]]:
    return {one: frozenset(partitions) for one, partitions in tasks.items()}
