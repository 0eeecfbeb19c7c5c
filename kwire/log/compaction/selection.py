"""Which log to clean, up to which offset, and in which groups of segments: decisions only, nothing is changed here.

The rules are those of Kafka's LogCleanerManager. The dirty part of a log goes from the cleaner's checkpoint to the
first segment that must not be cleaned. A log is due when the dirty share of its bytes exceeds
`min.cleanable.dirty.ratio`, or when a dirty record is older than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kwire.log.common.log_config import INT64_MAX
from kwire.log.segment.segment import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from kwire.log.partition.partition_log import PartitionLog
    from kwire.log.segment.segment import Segment


class DirtyLog(NamedTuple):
    """A log with a dirty part: offsets from ``start`` to ``end`` (the base offset of a segment) can be cleaned."""

    log: PartitionLog
    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int  # how much the oldest dirty record exceeds max.compaction.lag.ms
    start_was_invalid: bool  # the checkpoint pointed outside the log

    @property
    def ratio(self) -> float:
        """The dirty share of the bytes, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log should be cleaned now."""
        return self.ratio > self.log.config.min_cleanable_dirty_ratio or (self.delay_ms > 0 and self.dirty_bytes > 0)


def examine(log: PartitionLog, checkpoint: int | None, now_ms: int) -> DirtyLog:
    """Find the dirty part of a log. OSError (with a lag configured, timestamps are read)."""
    start = log.log_start_offset if checkpoint is None else checkpoint
    invalid = not log.log_start_offset <= start <= log.log_end_offset
    if invalid:
        start = log.log_start_offset
    sealed = [segment for segment in log.segments if segment is not log.active]
    dirty = _from(sealed, start) if start < log.active.base_offset else []
    limit = min(log.last_stable_offset, log.active.base_offset, _first_too_young(log, dirty, now_ms))
    limit = max(limit, start)
    beyond = _from(sealed, limit)
    end = beyond[0].base_offset if beyond and limit < log.active.base_offset else log.active.base_offset
    return DirtyLog(
        log,
        start,
        end,
        sum(segment.size for segment in sealed if segment.base_offset < start),
        sum(segment.size for segment in _from(sealed, start) if segment.base_offset < end) if start < end else 0,
        _delay_ms(log, dirty, now_ms),
        invalid,
    )


def _from(segments: list[Segment], offset: int) -> list[Segment]:
    """The segments from the one with an offset on."""
    at = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return segments[max(at, 0) :]


def _first_too_young(log: PartitionLog, dirty: list[Segment], now_ms: int) -> int:
    """The base offset of the first segment with a record younger than `min.compaction.lag.ms`."""
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp_ms() > now_ms - lag_ms:
                return segment.base_offset
    return INT64_MAX


def _delay_ms(log: PartitionLog, dirty: list[Segment], now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= INT64_MAX:
        return 0
    first = min((time for time in (segment.first_timestamp for segment in dirty) if time > 0), default=INT64_MAX)
    return max(now_ms - max(lag_ms, 0) - first, 0)


def group_segments(
    segments: list[Segment], end: int, max_bytes: int, max_index_bytes: int, index_bytes: Callable[[Segment], int]
) -> list[list[Segment]]:
    """Groups of neighbouring segments that fit into one: by bytes, by index size (``index_bytes`` is the size of a
    segment's larger index) and by relative offsets (int32). Empty segments always fit."""
    groups: list[list[Segment]] = []
    size = indexes = 0
    for i, segment in enumerate(segments):
        index_size = index_bytes(segment)
        last_offset = (segments[i + 1].base_offset if i + 1 < len(segments) else end) - 1
        if (
            groups
            and size + segment.size <= max_bytes
            and indexes + index_size <= max_index_bytes
            and (segment.size == 0 or last_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
            size, indexes = size + segment.size, indexes + index_size
        else:
            groups.append([segment])
            size, indexes = segment.size, index_size
    return groups
