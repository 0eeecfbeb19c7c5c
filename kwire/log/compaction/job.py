"""The part of a log's cleaning that reads records: first the offset map, then segment group after segment group.

Runs in a helper process (`compaction.worker`), or inline where there are none. Either way it reads segments and writes
`.cleaned` files (without a sync), and never touches the log itself. The requests are in `compaction.messages`.

The work is done in steps (`run` yields the bytes read and written), so that it can be throttled and interleaved.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

from kwire.base.doors import Files
from kwire.codec.errors import CodecError
from kwire.codec.records.header import BatchHeader, parse_header
from kwire.codec.records.reader import read_body
from kwire.log.common import names
from kwire.log.common.append_info import AbortedTransaction
from kwire.log.common.file_cache import FileCache
from kwire.log.compaction.batch_filter import BatchFilter, FilterRules
from kwire.log.compaction.messages import (
    BuildMap,
    CleanGroup,
    CleaningRequest,
    CleaningResponse,
    GroupCleaned,
    IoFailed,
    LogCorrupt,
    MapBuilt,
    MapForgotten,
)
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.transactions import CleanedTransactions, ignore_kept
from kwire.log.partition.validator import MAX_DECOMPRESSED_BYTES
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan
from kwire.log.segment.segment import Segment

STEP_BYTES = 1 << 20
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC


class CleaningJob:
    """Carries out requests, for one log after the other. Keeps the offset map between the requests for a log."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._cache = FileCache(files, budget=4)
        self._offsets = OffsetMap(1, 1.0)
        self._transactions = CleanedTransactions()
        self._io_bytes = STEP_BYTES

    def run(self, request: CleaningRequest) -> Generator[int, None, CleaningResponse]:
        """Carry out a request; yields the bytes read and written since the last step."""
        try:
            if isinstance(request, BuildMap):
                return (yield from self._build_map(request))
            if isinstance(request, CleanGroup):
                return (yield from self._clean(request))
            self._offsets = OffsetMap(1, 1.0)
            return MapForgotten()
        except (CorruptLog, CodecError, IndexError) as error:
            return LogCorrupt(str(error) or type(error).__name__)
        except OSError as error:
            return IoFailed(error.errno, str(error))

    # -- the map -------------------------------------------------------------------------------------------------------

    def _build_map(self, request: BuildMap) -> Generator[int, None, MapBuilt]:
        offsets = self._offsets = OffsetMap(request.buffer_bytes, request.load_factor)
        offsets.first_offset = request.start
        self._transactions = CleanedTransactions()  # of the second pass
        transactions = CleanedTransactions()
        transactions.add(request.aborted)
        read_bytes, full = 0, False
        self._io_bytes = request.io_bytes
        for segment in request.segments:
            if full:
                break
            steps = self._map_segment(request.directory, segment.base_offset, segment.size, transactions)
            try:
                while True:
                    step = next(steps)
                    read_bytes += step
                    yield step
            except StopIteration as end:
                full = not end.value
            if not full:
                offsets.note_end(segment.next_base_offset - 1)  # the segment may end without batches
        return MapBuilt(
            latest_offset=offsets.latest_offset,
            utilization=len(offsets) / offsets.capacity,
            keyless=offsets.keyless,
            read_bytes=read_bytes,
        )

    def _map_segment(
        self, directory: str, base_offset: int, size: int, transactions: CleanedTransactions
    ) -> Generator[int, None, bool]:
        """Enter a segment's records. Returns False if the map is full before its end."""
        offsets, pending = self._offsets, 0
        for batch in self._batches(directory, base_offset, size):
            header = batch.header
            pending += header.size
            if pending >= STEP_BYTES:
                yield pending
                pending = 0
            if header.is_control:
                transactions.marker_can_go(header, batch.data, ignore_kept)
            elif not transactions.batch_is_aborted(header) and header.last_offset >= offsets.first_offset:
                body = read_body(batch.data, header, max_bytes=MAX_DECOMPRESSED_BYTES)
                if not offsets.add_batch(header, body):
                    yield pending
                    return False
            if header.last_offset >= offsets.first_offset:
                offsets.note_end(header.last_offset)
        yield pending
        return True

    def _batches(self, directory: str, base_offset: int, size: int) -> Iterator[ScannedBatch]:
        """The batches of a segment, with their checksums verified: damage must not get a new, valid checksum."""
        path = f"{directory}/{names.file_name(base_offset, names.LOG_SUFFIX)}"
        fd = self._files.open(path, _READ_ONLY)
        try:
            yield from scan(self._files, fd, path, 0, size, check_crc=True, chunk_bytes=self._io_bytes)
        finally:
            self._files.close(fd)

    # -- a group -------------------------------------------------------------------------------------------------------

    def _clean(self, request: CleanGroup) -> Generator[int, None, GroupCleaned]:
        rules = FilterRules(request.now_ms, request.delete_retention_ms, request.upper_bound, request.producers)
        self._io_bytes = request.io_bytes
        transactions = self._transactions
        transactions.add(request.aborted)
        cleaned = CleanedSegment(
            self._cache, request.directory, request.segments[0].base_offset, request.index_interval, self._io_bytes
        )
        kept = BatchFilter(self._offsets, transactions, rules, cleaned.note_aborted)
        read_bytes = pending = 0
        try:
            for base_offset, size in request.segments:
                for batch in self._batches(request.directory, base_offset, size):
                    data = kept.clean(batch.header, batch.data)
                    written = 0 if data is None else cleaned.add(data)
                    read_bytes += batch.header.size
                    pending += batch.header.size + written
                    if pending >= STEP_BYTES:
                        yield pending
                        pending = 0
            cleaned.finish()
            yield pending
        finally:
            cleaned.close()
        return GroupCleaned(
            size=cleaned.size,
            read_bytes=read_bytes,
            records_read=kept.records_read,
            records_kept=kept.records_kept,
            largest_batch=cleaned.largest_batch,
        )


class CleanedSegment:
    """A segment under construction: the files of a segment with `.cleaned` appended to their names. OSError."""

    def __init__(
        self, cache: FileCache, directory: str, base_offset: int, index_interval: int, write_bytes: int = STEP_BYTES
    ) -> None:
        self._files = cache.files
        self._index_interval = index_interval
        self._write_bytes = write_bytes
        self._segment = Segment(cache, directory, base_offset, 0, 0, new=True, state=names.CLEANED_SUFFIX)
        self._segment.create_files()
        self._headers: list[BatchHeader] = []
        self._parts: list[bytes] = []
        self._pending = 0
        self.largest_batch = 0

    @property
    def size(self) -> int:
        """Bytes written to the `.log` file so far."""
        return self._segment.size

    def add(self, data: bytes | memoryview) -> int:
        """Append a batch. Returns its size."""
        header = parse_header(data)
        self._headers.append(header)
        self._parts.append(bytes(data))  # the buffer behind a view is reused
        self._pending += header.size
        self.largest_batch = max(self.largest_batch, header.size)
        if self._pending >= self._write_bytes:
            self._write()
        return header.size

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an entry to the transaction index."""
        self._segment.note_aborted(aborted)

    def _write(self) -> None:
        if self._headers:
            self._segment.append(b"".join(self._parts), self._headers, self._index_interval)
        self._headers, self._parts, self._pending = [], [], 0

    def finish(self) -> None:
        """Write the rest, and the indexes."""
        self._write()
        self._segment.seal()

    def close(self) -> None:
        """Close the `.log` file."""
        self._segment.file.close()
