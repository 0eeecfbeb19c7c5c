"""Removing records from an open log: truncation at its end, retention at its start.

`LogTruncation` is a part of `PartitionLog`. Which segments retention deletes is decided in `retention`; compaction
replaces segments through `PartitionLog.replace_segments`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition import retention
from kwire.log.partition.flusher import Flusher
from kwire.log.recovery.producers import replay_producers
from kwire.log.segment.segment import Segment
from kwire.log.state.leader_epoch_cache import LeaderEpochCache
from kwire.log.state.log_view import PartOfLog
from kwire.log.state.producer_state import ProducerStateManager


class TruncatableLog(Protocol):
    """The part of `PartitionLog` that changes when records are removed."""

    directory: str
    name: str
    config: LogConfig
    segments: list[Segment]
    bases: list[int]
    active: Segment
    epochs: LeaderEpochCache
    latest_epoch: int
    producer_state: ProducerStateManager
    flusher: Flusher
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    truncated_to: int

    def roll(self) -> None:
        """Begin a new segment at the end. OSError."""

    def advance_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset forward. Whether it moved."""


class LogTruncation(PartOfLog[TruncatableLog]):
    """Removes segments and batches of one log, and moves its bounds accordingly."""

    def __init__(self, env: LogEnvironment, log: TruncatableLog) -> None:
        super().__init__(log)
        self._env = env

    def delete_old_segments(self, limit: int) -> int:
        """Apply retention by time, by size and by log start offset. Returns the number of segments removed, at most
        ``limit``. KafkaError(KAFKA_STORAGE_ERROR)."""
        log = self._log
        count = 0
        try:
            count = min(retention.count_deletable(log, self._env.doors.clock.time_ms()), limit)
            if count == 0:
                return 0
            if count == len(log.segments):
                log.roll()  # appends continue in an empty segment
            self._drop_first(count)
            log.advance_log_start_offset(log.segments[0].base_offset)
        except OSError as error:
            raise self._env.failure(log.directory, error) from error
        return count

    def _drop_first(self, count: int) -> None:
        """Take the first segments out of the log; their files are removed after `file.delete.delay.ms`. OSError."""
        log = self._log
        dropped = log.segments[:count]
        del log.segments[:count]
        del log.bases[:count]
        self._remove_files(dropped)

    def _remove_files(self, segments: list[Segment]) -> None:
        log, files = self._log, self._env.doors.files
        for segment in segments:
            log.flusher.dropped(segment)
            segment.file.close()
            snapshot = log.producer_state.snapshot_path(segment.base_offset)
            paths = segment.paths() + ([snapshot] if files.exists(snapshot) else [])
            self._env.remover.remove_files(paths, log.config.file_delete_delay_ms)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from an offset on, where a follower's log diverges from its leader's.
        KafkaError(KAFKA_STORAGE_ERROR)."""
        log = self._log
        if offset >= log.log_end_offset:
            log.epochs.truncate_from_end(offset)  # an epoch without records that began here was not the leader's
            log.latest_epoch = log.epochs.latest_epoch
            return
        try:
            if offset < log.segments[0].base_offset:
                self._start_at(offset)
                return
            keep = max(bisect_right(log.bases, offset), 1)
            dropped = log.segments[keep:]
            del log.segments[keep:]
            del log.bases[keep:]
            self._remove_files(dropped)
            log.active = log.segments[-1]
            log.active.truncate(offset)
            self._move_end_back(offset)
        except OSError as error:
            raise self._env.failure(log.directory, error) from error

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record gets this offset. KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            self._start_at(offset)
        except OSError as error:
            raise self._env.failure(self._log.directory, error) from error

    def _start_at(self, offset: int) -> None:
        """Replace all segments by an empty one. After an OSError the log is as it was."""
        log = self._log
        former, new = log.segments, log.active
        if new.base_offset == offset:
            new.truncate(offset)
        else:
            now_ms = self._env.doors.clock.time_ms()
            new = Segment(self._env.cache, log.directory, offset, 0, now_ms, new=True)
            try:
                new.create_files()
            except OSError:
                new.discard()
                raise
        log.segments, log.bases, log.active = [new], [offset], new
        self._remove_files([segment for segment in former if segment is not new])
        log.log_start_offset = offset
        self._move_end_back(offset)

    def _move_end_back(self, offset: int) -> None:
        log = self._log
        log.log_end_offset = offset
        log.truncated_to = min(log.truncated_to, offset)
        log.log_start_offset = min(log.log_start_offset, offset)
        log.high_watermark = min(log.high_watermark, offset)
        log.flusher.truncate_to(offset)
        log.epochs.truncate_from_end(offset)
        log.latest_epoch = log.epochs.latest_epoch
        replay_producers(self._env, log.directory, log.segments, log.producer_state, offset)
