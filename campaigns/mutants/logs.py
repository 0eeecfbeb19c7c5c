"""Mutants of logs: recovery, syncs, the cleaner and the verification of segments.

Power losses, corruptions and delayed syncs must notice them (`campaigns.power_loss`, `campaigns.corruption`,
`campaigns.ack_order`). How mutants are run: `campaigns.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from campaigns import ack_order, power_loss_compacted
from campaigns import corruption as corruption_campaign
from campaigns import power_loss as power_loss_campaign
from campaigns.mutants.mutant import Mutant, together
from kwire.cluster.replication.partition import Partition
from kwire.log.compaction.segment_swap import SegmentSwap
from kwire.log.manager.offset_checkpoints import OffsetCheckpoints
from kwire.log.partition.flusher import Flusher
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.recovery.header_validator import HeaderValidator
from kwire.log.recovery.recovery import LogRecovery
from kwire.log.segment import batch_scan, damage
from kwire.log.segment.segment import Segment
from kwire.log.state.producer_state import ProducerStateManager


def _no_crc() -> Any:
    return together(
        patch.object(batch_scan, "crc_is_valid", lambda *_: True),
        patch.object(damage, "crc_is_valid", lambda *_: True),
    )


def _no_snapshot() -> Any:
    def forget(self: ProducerStateManager, offset: int, now_ms: int) -> None:
        self.clear()
        self.map_end_offset = offset

    return patch.object(ProducerStateManager, "load_snapshot", forget)


def _no_sync_of_names() -> Any:
    prepare = Flusher._prepare

    def without_directories(self: Flusher, segments: list[Segment]) -> tuple[list[int], list[str]]:
        return prepare(self, segments)[0], []

    return patch.object(Flusher, "_prepare", without_directories)


def _early_recovery_point() -> Any:
    def advance(self: Flusher) -> Any:
        self.recovery_point = self._log.log_end_offset

    return patch.object(Flusher, "flush", advance)


def _ack_before_sync() -> Any:
    """The log syncs, but the response does not wait for it."""
    append = PartitionLog.append_as_leader

    def without_waiting(self: PartitionLog, *args: Any, **how: Any) -> Any:
        info = append(self, *args, **how)
        info.flushed = None
        return info

    return patch.object(PartitionLog, "append_as_leader", without_waiting)


def _seen_before_sync() -> Any:
    return patch.object(Partition, "_wait_for_flush", lambda *_: None)


def _holes_allowed() -> Any:
    return patch.object(LogRecovery, "_is_behind_a_hole", lambda *_: False)


def _trust_what_is_found() -> Any:
    return patch.object(Segment, "__init__", _trusting(Segment.__init__))


def _trusting(init: Callable[..., None]) -> Callable[..., None]:
    def trusting(self: Segment, *args: Any, **how: Any) -> None:
        init(self, *args, **how)
        self.unverified = 0

    return trusting


def _swap_before_sync() -> Any:
    async def at_once(self: SegmentSwap, state: str, *, contents: bool = True) -> None:
        """The files are not synced."""

    return patch.object(SegmentSwap, "_sync", at_once)


def _clean_past_stable() -> Any:
    return patch.object(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _swap_beyond_recovery_point() -> Any:
    async def keep_nothing(*_: object) -> None:
        """The recovery point stays where it was."""

    return patch.object(OffsetCheckpoints, "write_recovery_point", keep_nothing)


def _drop_unsynced_reasons() -> Any:
    async def now(self: Flusher, end_offset: int) -> None:
        """What supersedes others is not synced."""

    return patch.object(Flusher, "flush_to", now)


def _epochs_unchecked() -> Any:
    return patch.object(HeaderValidator, "validate", lambda self, batch, due, gaps: batch.header)


LOG_MUTANTS: dict[str, Mutant] = {
    "no-crc": Mutant("checksums at recovery", _no_crc, power_loss_campaign.run_seeds, 200),
    "no-snapshot": Mutant("producer snapshots", _no_snapshot, power_loss_campaign.run_seeds, 200),
    "no-sync-of-names": Mutant("names on stable storage", _no_sync_of_names, power_loss_campaign.run_seeds, 200),
    "early-recovery-point": Mutant(
        "the sync before the response", _early_recovery_point, power_loss_campaign.run_seeds, 50
    ),
    "ack-before-sync": Mutant("the sync before the response, on the wire", _ack_before_sync, ack_order.run_seeds, 1),
    "seen-before-sync": Mutant("the sync before a consumer sees it", _seen_before_sync, ack_order.run_seeds, 1),
    "swap-before-sync": Mutant("the sync before a swap", _swap_before_sync, power_loss_compacted.run_seeds, 100),
    "clean-past-stable": Mutant("open transactions", _clean_past_stable, power_loss_compacted.run_seeds, 300),
    "swap-beyond-recovery-point": Mutant(
        "the recovery point before a swap", _swap_beyond_recovery_point, power_loss_compacted.run_seeds, 100
    ),
    "drop-before-sync": Mutant(
        "the sync of what supersedes", _drop_unsynced_reasons, power_loss_compacted.run_seeds, 100
    ),
    "headers-believed": Mutant(
        "offsets and epochs outside the checksum",
        _epochs_unchecked,
        lambda first, count: corruption_campaign.run_seeds(1_001_380 + first, count),
        100,
    ),
    "holes-allowed": Mutant("no hole in a log", _holes_allowed, power_loss_campaign.run_seeds, 300),
    "trust-what-is-found": Mutant(
        "verification before serving", _trust_what_is_found, corruption_campaign.run_seeds, 100
    ),
}
