"""The batches of what was read from the log: their headers, and the part that is sent. Only the records of
control batches are decoded.

What lives elsewhere: reading (`share.fetching`), and which of the records a member gets (`kwire.share`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.file_range import FileRange
from kwire.codec.errors import CodecError
from kwire.codec.records.control import ABORT, parse_control_key
from kwire.codec.records.header import HEADER_SIZE, BatchHeader, parse_header
from kwire.codec.records.reader import iter_records
from kwire.share.values import AcquiredRecords, FetchedBatch

if TYPE_CHECKING:
    from kwire.base.doors import Files

_CHUNK: Final = 16_384
"""Bytes read at a time to find headers: many small batches, or the start of a large one."""

_ALL: Final = 1 << 63
"""More offsets than a log has."""

_CONTROL_SIZE: Final = 256
"""No control batch of a data partition is larger, in bytes."""


class ReadBatches(NamedTuple):
    """The complete batches of what was read; ``ends`` are their ends in bytes from its beginning."""

    batches: list[FetchedBatch]
    ends: list[int]


def batches_of(records: FileRange | bytes, files: Files, after: int = -1, count: int = _ALL) -> ReadBatches:
    """The headers of the complete batches, up to the one that has the last of ``count`` offsets behind both ``after``
    and what precedes the first batch. OSError."""
    batches: list[FetchedBatch] = []
    ends: list[int] = []
    size = records.size if isinstance(records, FileRange) else len(records)
    position, chunk, chunk_at = 0, b"", 0
    until: int | None = None
    while position + HEADER_SIZE <= size:
        needed = min(_CONTROL_SIZE, size - position)
        if position + needed > chunk_at + len(chunk) or not chunk:
            chunk_at = position
            if isinstance(records, FileRange):
                chunk = files.pread(records.fd, min(_CHUNK, size - position), records.position + position)
            else:
                chunk = records[position : position + _CHUNK]
        header = parse_header(chunk, position - chunk_at)
        if position + header.size > size:
            break
        batches.append(_fetched(header, chunk, position - chunk_at))
        position += header.size
        ends.append(position)
        if until is None:
            until = max(after, header.base_offset - 1) + count
        if header.last_offset >= until:
            break
    return ReadBatches(batches, ends)


def _fetched(header: BatchHeader, chunk: bytes, at: int) -> FetchedBatch:
    is_abort = header.is_control and _is_abort(chunk[at : at + header.size])
    return FetchedBatch(header.base_offset, header.last_offset, header.producer_id, header.is_transactional, is_abort)


def _is_abort(batch: bytes) -> bool:
    try:
        record = next(iter_records(batch, max_bytes=_CONTROL_SIZE), None)
        return record is not None and parse_control_key(record).type == ABORT
    except CodecError:
        return False


def slice_acquired(
    records: FileRange | bytes, read: ReadBatches, acquired: Sequence[AcquiredRecords]
) -> FileRange | bytes:
    """The batches from that of the first acquired record to that of the last. A file range is narrowed in place."""
    if not acquired:
        if isinstance(records, FileRange):
            records.release()
        return b""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    start = end = 0
    for batch, batch_end in zip(read.batches, read.ends, strict=True):
        if batch.last_offset < first:
            start = end = batch_end
        elif batch.base_offset <= last:
            end = batch_end
    if isinstance(records, FileRange):
        records.narrow(start, end - start)
        return records
    return records[start:end]
