"""Which segments a log no longer needs: by time, by size, and because they lie below its log start offset.

Only whole segments are deleted, oldest first, and only below the high watermark. Removing them is `truncation`'s;
compaction, which rewrites segments, is `kwire.log.compaction`'s.
"""

from __future__ import annotations

from kwire.log.segment.segment import Segment
from kwire.log.state.log_view import LogView


def count_deletable(log: LogView, now_ms: int) -> int:
    """How many of the first segments retention allows to delete (`retention.ms`, `retention.bytes`). OSError."""
    count = _below_log_start(log)
    if log.config.deletes:
        count = max(count, _too_old(log, now_ms), _too_large(log))
    return count


def _committed(log: LogView) -> list[tuple[Segment, int]]:
    """The segments wholly below the high watermark, oldest first, each with the offset at which the next one starts.
    An empty active segment is left out."""
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    found = []
    for segment, end in zip(segments, ends, strict=True):
        if end > log.high_watermark or (segment is log.active and segment.size == 0):
            break
        found.append((segment, end))
    return found


def _below_log_start(log: LogView) -> int:
    count = 0
    for segment, end in _committed(log):
        if segment is log.active or end > log.log_start_offset:
            break
        count += 1
    return count


def _too_old(log: LogView, now_ms: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    limit_ms = now_ms - retention_ms
    count = 0
    for segment, _end in _committed(log):
        if segment.largest_timestamp_ms() >= limit_ms:
            break
        count += 1
    return count


def _too_large(log: LogView) -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in log.segments) - log.config.retention_bytes
    count = 0
    for segment, _end in _committed(log):
        if excess < segment.size:
            break
        excess -= segment.size
        count += 1
    return count
