"""One member of a streams group, as an immutable value. `streams.records` has the records that describe it.

A task is one partition of one subtopology. A member processes its active tasks, and keeps copies of the state of its
standby tasks. Kafka 4.3 has records and fields for warm-up tasks, but never assigns one: kwire leaves them empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from kwire.codec.messages import streams_group_heartbeat_request as sent

LEAVE_EPOCH: Final = -1
"""The member epoch in the heartbeat of a member that leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""The member epoch with which a static member would leave. Kafka 4.3 has no static members of streams groups."""

Partitions = Mapping[str, frozenset[int]]
"""Subtopology id -> the partitions of its tasks. Never changed in place, and no set is empty."""
ActivePartitions = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch in which the task was assigned. Never changed in place."""


class MemberState(Enum):
    """How far a member is reconciled with its target assignment. The values are those of the record."""

    UNKNOWN = 127
    """Written by a later version of Kafka."""
    STABLE = 1
    """The member has its target assignment."""
    UNREVOKED_TASKS = 2
    """The member has to revoke tasks first."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that other members have not revoked yet."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Tasks(NamedTuple):
    """Tasks of a target assignment, or those that a member reports."""

    active: Partitions
    standby: Partitions


class OwnedTasks(NamedTuple):
    """Tasks that a member has, or has to revoke."""

    active: ActivePartitions
    standby: Partitions

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self.active and not self.standby


NO_TASKS: Final = Tasks({}, {})
NOTHING: Final = OwnedTasks({}, {})


class StreamsMember(NamedTuple):
    """See the module. ``process_id`` is None as long as only the member's assignment has been loaded. ``endpoint``: the
    host and port for interactive queries. ``assigned``: the tasks that the member may run; ``revoking``: those that it
    still has to revoke."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str | None = ""
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = {}
    assigned: OwnedTasks = NOTHING
    revoking: OwnedTasks = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has reached the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at_epoch(self, epoch: int) -> StreamsMember:
        """The same member in another epoch. Its previous epoch is the present one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def active_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch in which an active task was assigned to the member, or None if the member does not have it."""
        epoch = self.assigned.active.get(subtopology_id, {}).get(partition)
        return self.revoking.active.get(subtopology_id, {}).get(partition) if epoch is None else epoch


def reported_tasks(request: sent.StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that a heartbeat reports as owned; None if it does not report them."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(partitions_of(request.active_tasks), partitions_of(request.standby_tasks))


def partitions_of(tasks: list[sent.TaskIds]) -> Partitions:
    """Tasks of a request by subtopology. If a subtopology is there several times, the last one counts, as in Kafka."""
    return {one.subtopology_id: frozenset(one.partitions) for one in tasks}
