"""The messages between the broker and the helper processes that recover partitions after an unclean shutdown."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kwire.log.common.log_config import LogConfig
from kwire.log.recovery.recovery import RecoveredLog
from kwire.log.segment.damage import Damage


class UncleanPartition(NamedTuple):
    """A partition that was not closed cleanly; ``bytes`` is how much of it recovery will read."""

    directory: str
    name: str
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    cleaned_to: int
    bytes: int


class RecoverPartitions(NamedTuple):
    """The request: recover these partitions, one after the other."""

    partitions: list[UncleanPartition]
    producer_expiration_ms: int


class RecoveryReport(NamedTuple):
    """What a helper has found in one partition, and repaired on disk. Segments are named by their base offsets."""

    complaints: list[str]
    recovery_point: int
    log_start_offset: int
    log_end_offset: int
    verified: list[int]
    bad: dict[int, list[Damage]]
    rebuilt: list[int]

    def applied_to(self, opened: RecoveredLog) -> RecoveredLog:
        """The log as the broker has opened it after the repair, with what only the helper has seen."""
        for segment in opened.segments:
            if segment.base_offset in self.verified:
                segment.mark_verified()
            segment.bad = self.bad.get(segment.base_offset, [])
        return replace(
            opened,
            complaints=self.complaints + opened.complaints,
            recovery_point=min(self.recovery_point, opened.log_end_offset),
            rebuilt=[segment for segment in opened.segments if segment.base_offset in self.rebuilt],
        )


class PartitionsRecovered(NamedTuple):
    """The response: a report for each partition of the request, None for one that the broker has to recover itself."""

    reports: list[RecoveryReport | None]
