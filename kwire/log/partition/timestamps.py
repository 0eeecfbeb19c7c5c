"""Looking up offsets by timestamp: through the time index to a batch, and within that one batch to a record.

ListOffsets uses these look-ups. Small segments are verified first, since an index that does not fit would mislead them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.base.file_range import FileRange
from kwire.codec.records import iter_records
from kwire.log.common.append_info import TimestampAndOffset
from kwire.log.partition.validator import MAX_DECOMPRESSED_BYTES
from kwire.log.segment.batch_scan import ScannedBatch
from kwire.log.segment.segment import Segment
from kwire.log.state.log_view import LogView
from kwire.log.verification.verifier import Verifier

PIECE_BYTES = 2 << 20
"""How much of a segment a look-up is expected to read: from an index entry to the batch, and the batch."""


def offset_for_timestamp(log: LogView, verifier: Verifier, timestamp_ms: int, upto: int) -> TimestampAndOffset | None:
    """The first record from the log start offset on whose timestamp is not before ``timestamp_ms``, if it lies below
    offset ``upto``. OSError, CorruptLog, CodecError."""
    for segment in log.segments:
        verifier.require_small(segment)
        if segment.max_timestamp < timestamp_ms:
            continue
        found = _find_in_segment(segment, timestamp_ms, log.log_start_offset)
        if found is not None:
            return found if found.offset < upto else None
    return None


def _find_in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    indexed = segment.base_offset + segment.time_index.lookup(timestamp_ms)
    for batch in _batches(segment, max(indexed, start_offset)):
        if batch.header.max_timestamp < timestamp_ms or batch.header.last_offset < start_offset:
            continue
        for record in iter_records(batch.data, max_bytes=MAX_DECOMPRESSED_BYTES):
            if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                return TimestampAndOffset(record.timestamp, record.offset, batch.header.partition_leader_epoch)
    return None


def max_timestamp(log: LogView, verifier: Verifier) -> TimestampAndOffset | None:
    """The first record with the highest timestamp of the log; None without timestamps. OSError, CorruptLog,
    CodecError."""
    if not log.segments:
        return None
    for segment in log.segments:
        verifier.require_small(segment)
    segment = max(reversed(log.segments), key=lambda segment: segment.max_timestamp)
    if segment.max_timestamp < 0:
        return None
    for batch in _batches(segment, segment.offset_of_max_timestamp):
        for record in iter_records(batch.data, max_bytes=MAX_DECOMPRESSED_BYTES):
            if record.timestamp == batch.header.max_timestamp:
                return TimestampAndOffset(record.timestamp, record.offset, batch.header.partition_leader_epoch)
        return TimestampAndOffset(
            batch.header.max_timestamp, batch.header.last_offset, batch.header.partition_leader_epoch
        )
    return None


def pieces(log: LogView, timestamp_ms: int | None) -> Iterator[str | FileRange]:
    """What a look-up by time would read, in order: paths of index files, then the range of a segment in which the
    record should be. None: the record with the highest timestamp. Each is to be read, so that it is in the page cache,
    before the next is asked for; then the look-up itself does not wait for the disk. A range is to be released.
    OSError."""
    found: Segment | None = None
    for segment in tuple(log.segments):
        if not segment.knows_max_timestamp:
            yield segment.time_index.path
        latest = segment.max_timestamp
        if timestamp_ms is None:
            if found is None or latest >= found.max_timestamp:
                found = segment
        elif latest >= timestamp_ms:
            found = segment
            break
    if found is None or not found.size:
        return
    for index in (found.time_index, found.index):
        if not index.loaded:
            yield index.path
    if timestamp_ms is None:
        offset = found.offset_of_max_timestamp
    else:
        offset = max(found.base_offset + found.time_index.lookup(timestamp_ms), log.log_start_offset)
    position = found.index.lookup(max(offset - found.base_offset, 0))
    if position < found.size:
        yield FileRange(found.file.descriptor(), position, min(found.size - position, PIECE_BYTES), found.file)


def _batches(segment: Segment, offset: int) -> Iterator[ScannedBatch]:
    """The batches of a segment from the one that ends at or beyond an offset."""
    found = segment.find(offset)
    if found is None:
        return
    file = segment.file
    file.retain()
    try:
        yield from segment.good_batches(found.position, segment.size)
    finally:
        file.release()
