"""What takes records out of an open log again: DeleteRecords, retention, truncation, and the cleaner's replacements.

`LogCutting` is the half of `PartitionLog` that only removes; appending and reading are the other half. Which segments
retention lets go is decided in `retention`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.log.common.environment import LogEnvironment, StorageError
from kwire.log.common.log_config import LogConfig
from kwire.log.partition import retention
from kwire.log.partition.flusher import Flusher
from kwire.log.recovery.recovery import replay_producers
from kwire.log.segment.segment import Segment
from kwire.log.state.leader_epoch_cache import LeaderEpochCache
from kwire.log.state.producer_state import ProducerStateManager


class LogCutting:
    """The segments of a log and its bounds, and what moves the bounds inwards."""

    _env: LogEnvironment
    _clock_ms: Callable[[], int]
    _bases: list[int]
    _latest_epoch: int
    directory: str
    name: str
    config: LogConfig
    segments: list[Segment]
    active: Segment
    epochs: LeaderEpochCache
    producer_state: ProducerStateManager
    flusher: Flusher
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    cut_to: int

    def now_ms(self) -> int:
        """The broker's wall clock."""
        return self._clock_ms()

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def roll(self) -> None:
        """Begin a new segment at the end. OSError."""
        raise NotImplementedError

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: records below an offset are gone, -1 meaning the high watermark. Their files go with the next
        retention pass, as in Kafka. Returns the new log start offset. KafkaError: OFFSET_OUT_OF_RANGE above the high
        watermark, KAFKA_STORAGE_ERROR."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} since it is larger than "
                f"the high watermark {self.high_watermark}",
            )
        self.advance_log_start_offset(target)
        return self.log_start_offset

    def advance_log_start_offset(self, offset: int) -> bool:
        """Records below an offset are no longer part of the log. Whether that is news."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.epochs.truncate_from_start(offset)
        self.producer_state.on_log_start_offset(offset)
        return True

    def delete_old_segments(self) -> int:
        """Retention by time, by size and by log start offset: how many segments went. KafkaError."""
        try:
            return retention.delete_old_segments(self)
        except OSError as error:
            raise self._failed(error) from error

    def drop_segments(self, count: int) -> None:
        """Take the first segments out of the log; their files go after `file.delete.delay.ms`. OSError."""
        dropped = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self._remove_files(dropped)

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Compaction: one segment takes the place of neighbours; the files have been renamed already."""
        new.trust_all()  # every batch of it was checked on the way
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]

    def _remove_files(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.file.close()
            snapshot = self.producer_state.snapshot_path(segment.base_offset)
            paths = segment.paths() + ([snapshot] if self._env.doors.files.exists(snapshot) else [])
            self._env.remover.remove_files(paths, self.config.file_delete_delay_ms)

    def truncate_to(self, offset: int) -> None:
        """A follower's log parts from its leader's at an offset: drop it and what follows. KafkaError."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)  # an epoch that began here and brought nothing was not the leader's
            self._latest_epoch = self.epochs.latest_epoch
            return
        try:
            if offset < self.segments[0].base_offset:
                self._start_anew_at(offset)
                return
            keep = max(bisect_right(self._bases, offset), 1)
            dropped = self.segments[keep:]
            del self.segments[keep:]
            del self._bases[keep:]
            self._remove_files(dropped)
            self.active = self.segments[-1]
            self.active.truncate(offset)
            self._end_moved_back(offset)
        except OSError as error:
            raise self._failed(error) from error

    def start_anew_at(self, offset: int) -> None:
        """Drop everything; the next record gets this offset. KafkaError."""
        try:
            self._start_anew_at(offset)
        except OSError as error:
            raise self._failed(error) from error

    def _start_anew_at(self, offset: int) -> None:
        """Either wholly or, with an OSError, not at all."""
        former, new = self.segments, self.active
        if new.base_offset == offset:
            new.truncate(offset)
        else:
            new = Segment(self._env.cache, self.directory, offset, 0, self._clock_ms(), new=True)
            try:
                new.create_files()
            except OSError:
                new.discard()
                raise
        self.segments, self._bases, self.active = [new], [offset], new
        self._remove_files([segment for segment in former if segment is not new])
        self.log_start_offset = offset
        self._end_moved_back(offset)

    def _end_moved_back(self, offset: int) -> None:
        self.log_end_offset = offset
        self.cut_to = min(self.cut_to, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.flusher.cut(offset)
        self.flusher.kept_point = min(self.flusher.kept_point, offset)
        self.epochs.truncate_from_end(offset)
        self._latest_epoch = self.epochs.latest_epoch
        replay_producers(self._env, self.directory, self.segments, self.producer_state, offset)

    def _failed(self, error: OSError) -> KafkaError:
        self._env.on_failure(self.directory, error)
        return StorageError(self.directory, error)
