"""Which processes have a task now. A process is an instance of the application; its threads are members of the group.

An active task has one owner. A process can neither have two copies of a task's state nor be its standby while one of
its threads is active, so reconciliation looks at processes, not at members.
"""

from __future__ import annotations

from kwire.coordinator.groups.streams.member import ActivePartitions, Partitions, StreamsMember


class TaskOwners:
    """The owners of all tasks of a group. A task belongs to a process until it has revoked it."""

    __slots__ = ("_active", "_standby")

    def __init__(self) -> None:
        self._active: dict[str, dict[int, str]] = {}
        self._standby: dict[str, dict[int, set[str]]] = {}

    def active(self, subtopology_id: str, partition: int) -> str | None:
        """The process that has the active task, or None."""
        return self._active.get(subtopology_id, {}).get(partition)

    def is_standby(self, subtopology_id: str, partition: int, process_id: str | None) -> bool:
        """Whether a process has the standby task."""
        return process_id in self._standby.get(subtopology_id, {}).get(partition, ())

    def add(self, member: StreamsMember) -> None:
        """Enter the tasks of a member."""
        if member.process_id is None:
            return
        for tasks in (member.assigned, member.revoking):
            self._add_active(tasks.active, member.process_id)
            self._add_standby(tasks.standby, member.process_id)

    def remove(self, member: StreamsMember | None) -> None:
        """Remove the tasks of a member, as far as its process still has them."""
        if member is None or member.process_id is None:
            return
        for tasks in (member.assigned, member.revoking):
            self._remove_active(tasks.active, member.process_id)
            self._remove_standby(tasks.standby, member.process_id)

    def _add_active(self, tasks: ActivePartitions, process_id: str) -> None:
        for subtopology_id, partitions in tasks.items():
            owners = self._active.setdefault(subtopology_id, {})
            owners.update(dict.fromkeys(partitions, process_id))

    def _add_standby(self, tasks: Partitions, process_id: str) -> None:
        for subtopology_id, partitions in tasks.items():
            owners = self._standby.setdefault(subtopology_id, {})
            for partition in partitions:
                owners.setdefault(partition, set()).add(process_id)

    def _remove_active(self, tasks: ActivePartitions, process_id: str) -> None:
        for subtopology_id, partitions in tasks.items():
            owners = self._active.get(subtopology_id, {})
            for partition in partitions:
                if owners.get(partition) == process_id:
                    del owners[partition]
            if not owners:
                self._active.pop(subtopology_id, None)

    def _remove_standby(self, tasks: Partitions, process_id: str) -> None:
        for subtopology_id, partitions in tasks.items():
            owners = self._standby.get(subtopology_id, {})
            for partition in partitions:
                processes = owners.get(partition, set())
                processes.discard(process_id)
                if not processes:
                    owners.pop(partition, None)
            if not owners:
                self._standby.pop(subtopology_id, None)
