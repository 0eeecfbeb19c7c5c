"""One log's cleaning, the part that looks at records: first the offset map, then segment group after segment group.

Runs in a helper process (`cleaner_worker`), or inline where there are none; either way it reads segments and writes
`.cleaned` files, and never touches the log itself. Requests and answers are plain values that JSON can carry:

    map    -> how far the map reaches, how full it is
    clean  -> a group's `.cleaned` files have been written (not synced)

Work is done in steps (`run` yields the bytes read and written), so that it can be throttled and interleaved.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

from kwire.base.doors import Files
from kwire.codec.errors import CodecError
from kwire.codec.records.header import BatchHeader, parse_header
from kwire.codec.records.reader import read_body
from kwire.log.common import names
from kwire.log.common.append_info import AbortedTransaction
from kwire.log.common.file_cache import FileCache
from kwire.log.compaction.batch_filter import BatchFilter, FilterRules
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.partition.validator import MAX_DECOMPRESSED_BYTES
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan
from kwire.log.segment.segment import Segment

Message = dict[str, Any]
Steps = Generator[int, None, Message]

STEP_BYTES = 1 << 20
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC


class CleaningJob:
    """Does what requests ask for, one log after the other. Keeps the map between the requests of a log."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._cache = FileCache(files, budget=4)
        self._offsets = OffsetMap(1, 1.0)
        self._transactions = CleanedTransactions()
        self._io_bytes = STEP_BYTES

    def run(self, request: Message) -> Steps:
        """The answer to a request. One with ``error`` says ``corrupt`` (the log's content) or ``os`` (``errno``)."""
        try:
            if request["op"] == "map":
                return (yield from self._build_map(request))
            if request["op"] == "clean":
                return (yield from self._clean(request))
            self._offsets = OffsetMap(1, 1.0)  # "forget"
            return {}
        except (CorruptLog, CodecError, IndexError) as error:
            return {"error": "corrupt", "message": str(error) or type(error).__name__}
        except OSError as error:
            return {"error": "os", "errno": error.errno, "message": str(error)}

    # The map

    def _build_map(self, request: Message) -> Steps:
        offsets = self._offsets = OffsetMap(request["buffer_bytes"], request["load_factor"])
        offsets.first_offset = request["start"]
        self._transactions = CleanedTransactions()  # of the second pass
        transactions = CleanedTransactions()
        transactions.add(AbortedTransaction(*each) for each in request["aborted"])
        read_bytes, full = 0, False
        self._io_bytes = request.get("io_bytes", STEP_BYTES)
        for base_offset, size, next_base in request["segments"]:
            if full:
                break
            steps = self._map_segment(request["directory"], base_offset, size, transactions)
            try:
                while True:
                    step = next(steps)
                    read_bytes += step
                    yield step
            except StopIteration as end:
                full = not end.value
            if not full:
                offsets.note_end(next_base - 1)  # an empty end of a segment has nothing that could say so
        return {
            "latest_offset": offsets.latest_offset,
            "entries": len(offsets),
            "utilization": len(offsets) / offsets.capacity,
            "keyless": offsets.keyless,
            "read_bytes": read_bytes,
        }

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
                transactions.marker_can_go(header, batch.data)
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
        """The batches of a segment, each with its checksum verified: damage must not be sealed anew."""
        path = f"{directory}/{names.file_name(base_offset, names.LOG_SUFFIX)}"
        fd = self._files.open(path, _READ_ONLY)
        try:
            yield from scan(self._files, fd, path, 0, size, check_crc=True, chunk_bytes=self._io_bytes)
        finally:
            self._files.close(fd)

    # A group

    def _clean(self, request: Message) -> Steps:
        rules = FilterRules(
            request["now_ms"],
            request["delete_retention_ms"],
            request["upper_bound"],
            {producer_id: (epoch, offset) for producer_id, epoch, offset in request["producers"]},
        )
        self._io_bytes = request.get("io_bytes", STEP_BYTES)
        transactions = self._transactions
        transactions.add(AbortedTransaction(*each) for each in request["aborted"])
        cleaned = CleanedSegment(
            self._cache, request["directory"], request["segments"][0][0], request["index_interval"], self._io_bytes
        )
        transactions.on_kept = cleaned.note_aborted
        kept = BatchFilter(self._offsets, transactions, rules)
        read_bytes = pending = 0
        try:
            for base_offset, size in request["segments"]:
                for batch in self._batches(request["directory"], base_offset, size):
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
            transactions.on_kept = None
            cleaned.close()
        return {
            "size": cleaned.size,
            "read_bytes": read_bytes,
            "written_bytes": cleaned.size,
            "records_read": kept.records_read,
            "records_kept": kept.records_kept,
            "largest_batch": cleaned.largest_batch,
        }


class CleanedSegment:
    """A segment under construction: the same files as any other, with `.cleaned` behind their names. OSError."""

    def __init__(
        self, cache: FileCache, directory: str, base_offset: int, index_interval: int, write_bytes: int = STEP_BYTES
    ) -> None:
        self._files = cache.files
        self._index_interval = index_interval
        self._write_bytes = write_bytes
        segment = self._segment = Segment(cache, directory, base_offset, 0, 0, new=True)
        for part in (segment.file, segment.index, segment.time_index, segment.txn_index):
            part.path += names.CLEANED_SUFFIX
        segment.create_files()
        self._headers: list[BatchHeader] = []
        self._parts: list[bytes] = []
        self._pending = 0
        self.largest_batch = 0

    @property
    def size(self) -> int:
        return self._segment.size

    def add(self, data: bytes | memoryview) -> int:
        """Put a batch behind the last one. Returns its size."""
        header = parse_header(data)
        self._headers.append(header)
        self._parts.append(bytes(data))  # the buffer behind a view is reused
        self._pending += header.size
        self.largest_batch = max(self.largest_batch, header.size)
        if self._pending >= self._write_bytes:
            self._write()
        return header.size

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        self._segment.note_aborted(aborted)

    def _write(self) -> None:
        if self._headers:
            self._segment.append(b"".join(self._parts), self._headers, self._index_interval)
        self._headers, self._parts, self._pending = [], [], 0

    def finish(self) -> None:
        """Write what is left, and the indexes."""
        self._write()
        self._segment.seal()

    def close(self) -> None:
        self._segment.file.close()
