"""The server-side assignors of consumer groups (KIP-848): pure functions that compute a target assignment.

Given the same members in the same order, they return the same assignment as Apache Kafka's. `groups.consumer.reconcile`
decides when a member receives its partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.coordinator.assignors.model import GroupAssignment, GroupSpec, MemberSpec, Partitions
from kwire.coordinator.assignors.range_assignor import assign_range
from kwire.coordinator.assignors.uniform import assign_uniform

Assignor = Callable[[GroupSpec], GroupAssignment]

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
"""Assignors by their names in `group.consumer.assignors` and ConsumerGroupHeartbeat."""

__all__ = ["ASSIGNORS", "Assignor", "GroupAssignment", "GroupSpec", "MemberSpec", "Partitions"]
