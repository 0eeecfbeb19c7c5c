"""Reading a range of offsets from segment files, which may be deleted or replaced meanwhile."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.arrow.decoding import Batch
from kwire.arrow.errors import ReadError, RecordsGone
from kwire.arrow.files.directory import DataDirectory, Identity, as_read_errors
from kwire.arrow.ranges import Partition, Range
from kwire.arrow.reading import Reading
from kwire.arrow.rows import Rows
from kwire.base.doors import Files
from kwire.log.common import names
from kwire.log.segment.batch_scan import BatchPosition, CorruptLog, ScannedBatch, find_batch, scan
from kwire.log.segment.indexes import OffsetIndex, TransactionIndex

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES: Final = 100
_CHANGING: Final = "its segments change all the time; read again"


class FileRange(NamedTuple):
    """Offsets to read, and what the partition was when they were planned: `Visible.identity` of all before ``end``."""

    wanted: Range
    end: int
    identity: Identity


def read(path: str, how: Reading, planned: FileRange) -> Iterator[pa.RecordBatch]:
    """The records of a range. `ReadError` if it is not what was planned any more; then nothing that was read counts.

    Memory holds one batch of the log and one Arrow batch."""
    directory, wanted = DataDirectory(path), planned.wanted
    rows = Rows(wanted.topic, wanted.partition, how)
    with as_read_errors((wanted.topic, wanted.partition)):
        _check(directory, planned)
        for batch in _wanted(directory, wanted, how):
            rows.add(batch)
            if rows.is_enough and (made := rows.take()) is not None:
                yield made
        _check(directory, planned)
        made = rows.take()
    if made is not None:
        yield made


def _check(directory: DataDirectory, planned: FileRange) -> None:
    """`ReadError` if the topic was made again or the log is shorter than it was."""
    partition = (planned.wanted.topic, planned.wanted.partition)
    now = directory.identity(partition, planned.end)
    if not planned.identity.may_become(now) or directory.high_watermark(partition) < planned.end:
        raise ReadError(
            f"{directory.folder(partition)}: the topic was made again, or its log truncated, meanwhile; read again"
        )


def _wanted(directory: DataDirectory, wanted: Range, how: Reading) -> Iterator[Batch]:
    """Each batch that has records for the reader."""
    partition = (wanted.topic, wanted.partition)
    aborted = _aborted(directory, partition, wanted.start) if how.committed else {}
    for each in _batches(directory, wanted, fails_on_loss=how.fails_on_loss):
        header = each.header
        if header.is_control:
            continue
        if header.is_transactional and any(
            first <= header.base_offset <= last for first, last in aborted.get(header.producer_id, ())
        ):
            continue
        yield Batch(each.data, header, wanted.start, wanted.end)


def _batches(directory: DataDirectory, wanted: Range, *, fails_on_loss: bool) -> Iterator[ScannedBatch]:
    """The batches that have offsets of the range."""
    position, partition = wanted.start, (wanted.topic, wanted.partition)
    while position < wanted.end:
        path, fd, following = _open(directory, partition, position, fails_on_loss=fails_on_loss)
        files = directory.files
        try:
            size, reached = files.size(fd), position
            at = _find(files, fd, path, position, size) if size else None
            for batch in scan(files, fd, path, at.position, size, check_crc=True) if at else ():
                if batch.header.base_offset >= wanted.end:
                    reached = wanted.end
                    break
                reached = batch.header.next_offset
                yield batch
                if reached >= wanted.end:
                    break
        finally:
            files.close(fd)
        if following is None and reached < wanted.end:
            raise ReadError(f"{path}: ends before offset {wanted.end}: the log was truncated meanwhile; read again")
        position = wanted.end if following is None else max(following, reached)


def _find(files: Files, fd: int, path: str, position: int, size: int) -> BatchPosition | None:
    """The first batch of a segment that ends at an offset or later, found by its offset index; a file that is no index
    of this segment (a copy, a crash) is not used."""
    stem = path.removesuffix(names.LOG_SUFFIX)
    index = OffsetIndex(files, stem + names.INDEX_SUFFIX, new=False)
    try:
        start = index.lookup(position - int(os.path.basename(stem)))
        if 0 < start < size:
            return find_batch(files, fd, path, position, start, size)
    except (CorruptLog, OSError):
        pass
    return find_batch(files, fd, path, position, 0, size)


def _open(
    directory: DataDirectory, partition: Partition, position: int, *, fails_on_loss: bool
) -> tuple[str, int, int | None]:
    """The segment with a position, opened, and the base offset of the one after it. What is opened stays readable when
    it is deleted or replaced; the list of segments is the same before and after."""
    folder = directory.folder(partition)
    for _ in range(_TRIES):
        bases = directory.segments(partition)
        index = bisect_right(bases, position) - 1
        if index < 0:
            if not bases or fails_on_loss:
                raise RecordsGone(f"{folder}: the segment with offset {position} was deleted meanwhile")
            index = 0
        path = f"{folder}/{names.file_name(bases[index], names.LOG_SUFFIX)}"
        try:
            fd = directory.files.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if directory.segments(partition) == bases:
            return path, fd, bases[index + 1] if index + 1 < len(bases) else None
        directory.files.close(fd)
    raise ReadError(f"{folder}: {_CHANGING}")


def _aborted(directory: DataDirectory, partition: Partition, start: int) -> dict[int, list[tuple[int, int]]]:
    """Offsets of aborted transactions that end at an offset or later, by their producers' ids. A compaction may move
    entries to the index of another segment, so the list of segments must be the same before and after."""
    folder = directory.folder(partition)
    for _ in range(_TRIES):
        found: dict[int, list[tuple[int, int]]] = {}
        bases = directory.segments(partition)
        for base in bases[max(0, bisect_right(bases, start) - 1) :]:
            path = f"{folder}/{names.file_name(base, names.TXN_INDEX_SUFFIX)}"
            for each in TransactionIndex(directory.files, path, new=False).entries():
                found.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        if directory.segments(partition) == bases:
            return found
    raise ReadError(f"{folder}: {_CHANGING}")
