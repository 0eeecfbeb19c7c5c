"""One member of a consumer group, as an immutable value. `consumer.records` has the records that describe it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

LEAVE_EPOCH: Final = -1
"""The member epoch in the heartbeat of a member that leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""The member epoch in the heartbeat of a static member that leaves and may return within its session timeout."""

OwnedPartitions = dict[bytes, dict[int, int]]
"""Topic id -> partition -> the member epoch in which it was assigned. Never changed in place."""


class MemberState(Enum):
    """How far a member is reconciled with its target assignment. The values are those of the record."""

    UNKNOWN = 127
    """Written by a later version of Kafka."""
    STABLE = 0
    """The member has its target assignment."""
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions first."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not revoked yet."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class ClassicFacts(NamedTuple):
    """What the last JoinGroup of a member of the classic protocol contained. ``protocols``: name and metadata, in the
    member's order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """See the module. ``topics`` are sorted. ``classic`` is None for members of the consumer protocol. ``assigned``:
    the partitions that the member may use; ``revoking``: those that it still has to revoke."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicFacts | None = None
    assigned: OwnedPartitions = {}
    revoking: OwnedPartitions = {}

    @property
    def uses_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has reached the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The same member in another epoch. Its previous epoch is the present one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which a partition was assigned to the member, or None if the member does not own it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch
