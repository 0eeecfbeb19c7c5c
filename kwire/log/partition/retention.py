"""Which segments a log no longer needs: by time, by size, and because its start has moved beyond them.

Only whole segments go, oldest first, and only below the high watermark. Compaction is another matter: it will rewrite
segments where this removes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.segment.segment import Segment

if TYPE_CHECKING:
    from kwire.log.partition.truncation import LogCutting


def delete_old_segments(log: LogCutting) -> int:
    """Remove what retention allows. Returns how many segments went. OSError."""
    count = _below_start(log)
    if log.config.deletes:
        count = max(count, _too_old(log), _too_large(log))
    if count == 0:
        return 0
    if count == len(log.segments):
        log.roll()  # the log goes on in an empty segment
    log.drop_segments(count)
    log.advance_log_start_offset(log.segments[0].base_offset)
    return count


def _deletable(log: LogCutting) -> list[tuple[Segment, int]]:
    """Segments that are wholly committed, oldest first, each with the offset where the next one starts. An empty
    active segment is not among them."""
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    found = []
    for segment, end in zip(segments, ends, strict=True):
        if end > log.high_watermark or (segment is log.active and segment.size == 0):
            break
        found.append((segment, end))
    return found


def _below_start(log: LogCutting) -> int:
    count = 0
    for segment, end in _deletable(log):
        if segment is log.active or end > log.log_start_offset:
            break
        count += 1
    return count


def _too_old(log: LogCutting) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    limit = log.now_ms() - retention_ms
    count = 0
    for segment, _end in _deletable(log):
        if segment.largest_timestamp_ms() >= limit:
            break
        count += 1
    return count


def _too_large(log: LogCutting) -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess = log.size - log.config.retention_bytes
    count = 0
    for segment, _end in _deletable(log):
        if excess < segment.size:
            break
        excess -= segment.size
        count += 1
    return count
