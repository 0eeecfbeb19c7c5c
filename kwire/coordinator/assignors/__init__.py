"""The server-side assignors of KIP-848: pure functions that decide which member should own which partition.

They decide what Apache Kafka's decide, partition by partition, given the same members in the same order. Who may own a
partition *now* is another question (`consumer_reconcile`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.coordinator.assignors.model import GroupAssignment, GroupSpec, MemberSpec, Partitions
from kwire.coordinator.assignors.range_assignor import assign_range
from kwire.coordinator.assignors.uniform import assign_uniform

Assignor = Callable[[GroupSpec], GroupAssignment]

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
"""By the names that ``group.consumer.assignors`` and ConsumerGroupHeartbeat know."""

__all__ = ["ASSIGNORS", "Assignor", "GroupAssignment", "GroupSpec", "MemberSpec", "Partitions"]
