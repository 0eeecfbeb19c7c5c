"""One member of a consumer group, as a value: a change makes another one, and records tell it (`consumer_records`)."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

LEAVE_EPOCH: Final = -1
"""The member leaves for good."""
STATIC_LEAVE_EPOCH: Final = -2
"""A static member leaves and may come back: its place is kept for as long as its session."""

OwnedPartitions = dict[bytes, dict[int, int]]
"""Topic id -> partition -> the epoch in which the member got it. Never changed in place."""


class MemberState(Enum):
    """How far a member is on its way to the target assignment; the values are those of the record."""

    UNKNOWN = 127
    """Written by a later version of Kafka."""
    STABLE = 0
    """It has all that it should have."""
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class ClassicFacts(NamedTuple):
    """What a member that speaks the classic protocol said when it joined, in its order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """See the module. ``topics`` are sorted; ``classic`` is None for members that speak the consumer protocol."""

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
    def speaks_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has reached the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The same member in another epoch, which remembers this one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """In which epoch it got a partition that it (still) owns."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch
