"""A process of a Streams application, as the assignor sees it: its members and the tasks that they have so far."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.coordinator.assignors.streams.model import MemberTasks, TaskId
from kwire.coordinator.assignors.streams.priority_queue import PriorityQueue
from kwire.coordinator.runtime.java_hash import hash_map_order


class Process:
    """The members that share a process id. A process holds a task at most once, whichever member runs it.

    ``load``: tasks per member. ``counts``: the tasks of each member, active and standby.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self.counts = dict.fromkeys(hash_map_order(members), 0)
        self.load = 0.0
        self._tasks: set[TaskId] = set()
        self._taken = 0
        self._assigned = {member_id: MemberTasks({}, {}) for member_id in self.counts}
        self._by_count: PriorityQueue[str] | None = None

    def has(self, task: TaskId) -> bool:
        """Whether a member of the process has the task already."""
        return task in self._tasks

    def add(self, member_id: str, task: TaskId, active: bool) -> int:
        """Give a task to a member. Returns how many tasks the member has now."""
        self._by_count = None
        return self._add(member_id, task, active)

    def add_to_least_loaded(self, task: TaskId, active: bool) -> int:
        """Give a task to the member with the fewest tasks. Returns how many tasks the member has now."""
        if len(self.counts) == 1:
            return self._add(next(iter(self.counts)), task, active)
        queue = self._by_count
        if queue is None:
            queue = self._by_count = PriorityQueue(self.counts.__getitem__)
            for member_id in self.counts:
                queue.push(member_id)
        member_id = queue.pop()
        count = self._add(member_id, task, active)
        queue.push(member_id)
        return count

    def assignment(self) -> dict[str, MemberTasks]:
        """The tasks of each member, sorted."""
        return {
            member_id: MemberTasks(_sorted(tasks.active), _sorted(tasks.standby))
            for member_id, tasks in self._assigned.items()
        }

    def _add(self, member_id: str, task: TaskId, active: bool) -> int:
        assigned = self._assigned[member_id]
        (assigned.active if active else assigned.standby).setdefault(task.subtopology_id, []).append(task.partition)
        self._tasks.add(task)
        self._taken += 1
        self.load = self._taken / len(self.counts)
        count = self.counts[member_id] = self.counts[member_id] + 1
        return count


def _sorted(tasks: dict[str, list[int]]) -> dict[str, list[int]]:
    return {subtopology_id: sorted(tasks[subtopology_id]) for subtopology_id in sorted(tasks)}
