"""The ``sticky`` task assignor: as balanced as possible, with as few moved tasks as possible.

Active tasks come first. A task stays with the member that had it, otherwise it goes to a member that had it as a
standby task, as long as that member is below its quota; what is left goes to the process with the least load. Then each
stateful task gets its standby tasks in the same way, each in another process than the active task and the other standby
tasks.

The quota is what every member without its quota would get if the tasks that are left were spread evenly over them. It
is computed anew whenever a member has reached it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.assignors.streams.model import (
    MemberTasks,
    StreamsGroupSpec,
    SubtopologySpec,
    TaskId,
)
from kwire.coordinator.assignors.streams.priority_queue import PriorityQueue
from kwire.coordinator.assignors.streams.process import Process
from kwire.coordinator.runtime.java_hash import hash_map_order, string_order


def assign_sticky(group: StreamsGroupSpec, subtopologies: Mapping[str, SubtopologySpec]) -> dict[str, MemberTasks]:
    """Compute the assignment; every member is in it. See the module.

    Raises UNKNOWN_SERVER_ERROR if there are tasks, but no members.
    """
    if not group.members and any(spec.tasks for spec in subtopologies.values()):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "There are no members to assign the tasks to.")
    return _Assignment(group, subtopologies).assign()


class _Member(NamedTuple):
    """A member, in its process."""

    id: str
    process: Process

    @property
    def load(self) -> int:
        """How many tasks the member has."""
        return self.process.counts[self.id]


class _Quota:
    """The tasks that each of the members below their quota should have. See the module."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._compute()

    def count(self, count: int) -> None:
        """A member has ``count`` tasks now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = self._compute()

    def _compute(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    """The state of one computation."""

    def __init__(self, group: StreamsGroupSpec, subtopologies: Mapping[str, SubtopologySpec]) -> None:
        self._replicas = group.standby_replicas
        self._stateful = {one for one, spec in subtopologies.items() if spec.stateful}
        self._rank = {one: rank for rank, one in enumerate(sorted(subtopologies, key=string_order))}
        self._tasks = [TaskId(one, partition) for one in self._rank for partition in range(subtopologies[one].tasks)]
        self._standby_tasks = [task for task in self._tasks if task.subtopology_id in self._stateful]
        total = len(self._tasks) + len(self._standby_tasks) * self._replicas
        self._active_quota = _Quota(len(self._tasks), len(group.members))
        self._quota = _Quota(total, len(group.members))
        self._members = group.members
        self._processes = _processes(group)
        self._was_active: dict[TaskId, _Member] = {}
        self._was_standby: dict[TaskId, list[_Member]] = {}
        self._remember()

    def assign(self) -> dict[str, MemberTasks]:
        self._assign_active()
        if self._replicas > 0:
            self._assign_standby()
        assigned: dict[str, MemberTasks] = {}
        for process in self._processes.values():
            assigned |= process.assignment()
        return {member_id: assigned[member_id] for member_id in self._members}

    def _remember(self) -> None:
        """Note who had each task."""
        for member_id in hash_map_order(self._members):
            spec = self._members[member_id]
            member = _Member(member_id, self._processes[spec.process_id])
            for subtopology_id, partitions in spec.active.items():
                for partition in partitions:
                    self._was_active[TaskId(subtopology_id, partition)] = member
            for subtopology_id, partitions in spec.standby.items():
                for partition in partitions:
                    self._was_standby.setdefault(TaskId(subtopology_id, partition), []).append(member)

    # -- active tasks --------------------------------------------------------------------------------------------------

    def _assign_active(self) -> None:
        by_partition = sorted(self._tasks, key=self._partition_first)
        left = [task for task in by_partition if not self._stays(task, self._was_active.get(task))]
        left = [task for task in left if not self._stays(task, _least_loaded(self._was_standby.get(task, ()), None))]
        queue = self._by_load()
        for task in sorted(left, key=self._subtopology_first):
            process = queue.pop()
            self._count_active(process.add_to_least_loaded(task, True))
            queue.push(process)

    def _stays(self, task: TaskId, member: _Member | None) -> bool:
        """Give an active task to a member that had it, if that is below its quota."""
        if member is None or member.load >= self._active_quota.per_member:
            return False
        self._count_active(member.process.add(member.id, task, True))
        return True

    def _count_active(self, count: int) -> None:
        self._active_quota.count(count)
        self._quota.count(count)

    # -- standby tasks -------------------------------------------------------------------------------------------------

    def _assign_standby(self) -> None:
        missing: list[tuple[TaskId, int]] = []
        for task in sorted(self._standby_tasks, key=self._partition_first, reverse=True):
            for number in range(self._replicas):
                if not self._stays_standby(task):
                    missing.append((task, self._replicas - number))
                    break
        missing.sort(key=lambda one: self._subtopology_first(one[0]), reverse=True)
        queue = self._by_load()
        for task, replicas in missing:
            for _ in range(replicas):
                if not self._add_standby(queue, task):
                    break

    def _stays_standby(self, task: TaskId) -> bool:
        """Give a standby task to a member that had the task in either role, if that is below its quota."""
        member = self._was_active.get(task)
        if member is None or member.process.has(task) or member.load >= self._quota.per_member:
            member = _least_loaded(self._was_standby.get(task, ()), task)
            if member is None or member.load >= self._quota.per_member:
                return False
        self._quota.count(member.process.add(member.id, task, False))
        return True

    def _add_standby(self, queue: PriorityQueue[Process], task: TaskId) -> bool:
        """Give a standby task to the process with the least load that has not got the task. False if all have."""
        passed: list[Process] = []
        added = False
        while queue and not added:
            process = queue.pop()
            passed.append(process)
            if not process.has(task):
                self._quota.count(process.add_to_least_loaded(task, False))
                added = True
        for process in reversed(passed):
            queue.push(process)
        return added

    # -- orders --------------------------------------------------------------------------------------------------------

    def _by_load(self) -> PriorityQueue[Process]:
        queue: PriorityQueue[Process] = PriorityQueue(lambda process: process.load)
        for process in self._processes.values():
            queue.push(process)
        return queue

    def _partition_first(self, task: TaskId) -> tuple[int, int]:
        return task.partition, self._rank[task.subtopology_id]

    def _subtopology_first(self, task: TaskId) -> tuple[int, int]:
        return self._rank[task.subtopology_id], task.partition


def _processes(group: StreamsGroupSpec) -> dict[str, Process]:
    """The processes by id, in the order of Kafka's hash map, which is as large at first as there are members."""
    members: dict[str, list[str]] = {}
    for member_id in hash_map_order(group.members):
        members.setdefault(group.members[member_id].process_id, []).append(member_id)
    capacity = 1 << max(len(group.members) - 1, 0).bit_length()
    return {process_id: Process(members[process_id]) for process_id in hash_map_order(members, capacity)}


def _least_loaded(members: Iterable[_Member], task: TaskId | None) -> _Member | None:
    """Of members that had a task as a standby task, the one in a process with less load, which has itself fewer tasks.

    With a ``task``, members of processes that have it are passed over; as in Kafka, nobody is found if the first
    member's process has the task.
    """
    first = found = next(iter(members), None)
    if first is None or found is None:
        return None
    for member in members:
        if task is not None and member.process.has(task):
            continue
        if member.process.load < found.process.load and member.load < found.load:
            found = member
    return None if task is not None and first.process.has(task) else found
