"""`LogView`: what an open log shows to the parts that flush, verify, look up and expire its segments.

`kwire.log.partition.partition_log.PartitionLog` implements it. The parts depend on this protocol, not on the log. Those
that the log keeps are a `PartOfLog`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from kwire.log.common.log_config import LogConfig
from kwire.log.segment.segment import Segment
from kwire.log.state.leader_epoch_cache import LeaderEpochCache
from kwire.log.state.producer_state import ProducerStateManager

L = TypeVar("L")


class LogView(Protocol):
    """The segments, bounds, leader epochs and producers of an open log, to read. Offsets are those of records."""

    @property
    def directory(self) -> str:
        """The directory of the partition."""

    @property
    def name(self) -> str:
        """Topic and partition as in Kafka's messages: ``topic-0``."""

    @property
    def config(self) -> LogConfig:
        """The topic's settings as they are now."""

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, by base offset; the last one is the active one."""

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""

    @property
    def epochs(self) -> LeaderEpochCache:
        """The leader epochs and their start offsets."""

    @property
    def producer_state(self) -> ProducerStateManager:
        """The idempotent producers and open transactions."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """Below this offset records are committed."""


class PartOfLog(Generic[L]):
    """A part that its log keeps, and that does not keep its log: so a log that is deleted is freed at once, with all
    that it has. In a cycle only a full garbage collection would find it, and there may be none for hours."""

    def __init__(self, log: L) -> None:
        self._ref = weakref.ref(log)

    @property
    def _log(self) -> L:
        """The log. Who goes on after a wait holds it meanwhile."""
        log = self._ref()
        assert log is not None
        return log
