"""One segment of a log: a `.log` file of record batches with its offset, time and transaction index.

Sizes and offsets are kept in memory: appending is one `pwrite` at the tracked end, without a stat, seek or open.
`partition_log` decides which segment is written or read, and when to roll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from kwire.base.doors import Files
from kwire.base.file_range import FileRange
from kwire.codec.records.header import BatchHeader
from kwire.log.common import names
from kwire.log.common.append_info import NO_DATA, AbortedTransaction, FetchedData
from kwire.log.common.file_cache import FileCache, LogFile
from kwire.log.segment.batch_scan import BatchPosition, CorruptLog, ScannedBatch, find_batch, scan
from kwire.log.segment.damage import Damage
from kwire.log.segment.indexes import CorruptIndex, OffsetIndex, TimeIndex, TransactionIndex

RELATIVE_OFFSET_MAX = 0x7FFFFFFF
POSITION_MAX = 0x7FFFFFFF

SMALL_READ = 16 * 1024
"""Up to this many bytes are read into memory: for so few, a copy is cheaper than a `sendfile` call."""

JOINED_BYTES = 8 * 1024
"""Batches that are written together are joined up to this size: a copy costs less than to name each to the system."""

TAIL_BATCHES = 64
"""How many of the last appended batches have their positions in memory, for consumers at the end of the log; the older
half is forgotten at once."""


class Segment:
    """The batches from ``base_offset`` on, ``size`` bytes of them.

    The first ``unverified`` bytes were found at start, and must be verified before they are served. ``bad`` are the
    damaged ranges, ascending. ``indexes_unsynced``: the index files were written to since they were synced.
    ``needs_truncation``: a failed write may have left bytes beyond ``size``. ``state`` is a further suffix of the file
    names, `.cleaned` while compaction writes the segment.
    """

    __slots__ = (
        "__weakref__",
        "_files",
        "_first_timestamp",
        "_index_grew",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_tail",
        "bad",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "file",
        "index",
        "indexes_unsynced",
        "needs_truncation",
        "size",
        "time_index",
        "txn_index",
        "unverified",
    )

    def __init__(
        self,
        cache: FileCache,
        directory: str,
        base_offset: int,
        size: int,
        created_ms: int,
        *,
        new: bool,
        state: str = "",
    ):
        stem = f"{directory}/{names.file_name(base_offset, '')}"
        self._files: Files = cache.files
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.file = LogFile(cache, stem + names.LOG_SUFFIX + state, self)
        self.index = OffsetIndex(cache.files, stem, suffix=names.INDEX_SUFFIX + state, new=new)
        self.time_index = TimeIndex(cache.files, stem, suffix=names.TIME_INDEX_SUFFIX + state, new=new)
        self.txn_index = TransactionIndex(cache.files, stem, suffix=names.TXN_INDEX_SUFFIX + state, new=new)
        self.bytes_since_index_entry = 0
        self.unverified = 0 if new else size
        self.indexes_unsynced = False
        self.bad: list[Damage] = []
        self.needs_truncation = False
        self._index_grew = not new
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = -1 if new else None
        self._offset_of_max_timestamp = -1
        self._tail: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Segment({self.file.path}, size={self.size})"

    # -- appending -----------------------------------------------------------------------------------------------------

    def append(self, data: bytes | bytearray | memoryview, headers: Sequence[BatchHeader], index_interval: int) -> None:
        """Append batches with final offsets and account for them. ``headers`` are those in ``data``. After an OSError
        nothing is appended."""
        self.write((data,), len(data))
        position = self.size
        for header in headers:
            size = header.length + 12
            last_offset = header.base_offset + header.last_offset_delta
            self.note_batch(header.base_offset, last_offset, header.max_timestamp, position, size, index_interval)
            position += size

    def write(self, parts: Sequence[bytes | bytearray | memoryview], size: int) -> None:
        """Write ``size`` bytes at the end of the file with one call, all or none; `note_batch` accounts for them.
        OSError."""
        file = self.file
        file.touched = True
        fd = file.fd if file.fd >= 0 else file.descriptor()
        if self.needs_truncation:
            self._files.ftruncate(fd, self.size)
            self.needs_truncation = False
        if self.size >= file.room_end:
            file.make_room(self.size)
        try:
            if len(parts) == 1:
                written = self._files.pwrite(fd, parts[0], self.size)
            elif size <= JOINED_BYTES:
                written = self._files.pwrite(fd, b"".join(parts), self.size)
            else:
                written = self._files.pwritev(fd, parts, self.size)
            if written != size:
                self._write_rest(fd, memoryview(b"".join(parts)), written)
        except OSError:
            self._roll_back(fd)
            raise

    def _write_rest(self, fd: int, data: memoryview, written: int) -> None:
        while written < len(data):  # after a short write: the next call raises if the disk is full
            count = self._files.pwrite(fd, data[written:], self.size + written)
            if count <= 0:
                raise OSError(f"{self.file.path}: nothing was written")
            written += count

    def _roll_back(self, fd: int) -> None:
        """Remove the bytes of a failed write, which recovery could take for batches."""
        self.needs_truncation = True
        try:
            self._files.ftruncate(fd, self.size)
            self.needs_truncation = False
        except OSError:
            pass  # tried again before the next write

    def note_batch(
        self, base_offset: int, last_offset: int, max_timestamp: int, position: int, size: int, index_interval: int
    ) -> None:
        """Account for a batch that was written at ``position``: timestamps, index entries, size."""
        known = self._max_timestamp
        if known is None:
            known = self.max_timestamp
        if max_timestamp > known:
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._first_timestamp is None and position == 0:
            self._first_timestamp = max_timestamp
        if self.bytes_since_index_entry > index_interval:
            self.index.append(last_offset - self.base_offset, position)
            self.note_max_timestamp()
            self.bytes_since_index_entry = 0
            self._index_grew = True
        self.bytes_since_index_entry += size
        tail = self._tail
        tail[base_offset] = position
        if len(tail) > TAIL_BATCHES:
            self._tail = dict(islice(tail.items(), TAIL_BATCHES // 2, None))
        self.size = position + size

    def note_max_timestamp(self) -> None:
        """Add the highest timestamp so far to the time index, if it is not there."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self._offset_of_max_timestamp - self.base_offset)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an entry to the transaction index. OSError."""
        self.txn_index.append(aborted)

    # -- rolling -------------------------------------------------------------------------------------------------------

    def must_roll(self, size: int, last_offset: int, max_bytes: int, max_entries: int, batches: int = 1) -> bool:
        """Whether batches do not fit: by bytes, by their relative offset (int32), or because an index is full, or may
        be before the last of several."""
        return (
            self.size > max_bytes - size
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or ((self._index_grew or batches > 1) and self._index_is_full(max_entries, batches - 1))
        )

    def _index_is_full(self, max_entries: int, before: int) -> bool:
        """Whether an index is full once ``before`` batches have been appended, each with an entry."""
        full = (
            len(self.index.data) >= (max_entries - before) * 8
            or len(self.time_index.data) >= (max_entries * 8 // 12 - 1 - before) * 12
        )
        self._index_grew = full  # checked once per entry, not per batch
        return full

    def age_ms(self, now_ms: Callable[[], int], max_timestamp: int) -> int:
        """The segment's age when a batch with this timestamp comes: by the records' timestamps if they have any, else
        since its creation."""
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        return max_timestamp - first if first >= 0 else now_ms() - self.created_ms

    @property
    def first_timestamp(self) -> int:
        """The highest timestamp of the first batch, -1 if there is none."""
        if self._first_timestamp is None:
            if self.size == 0:
                return -1
            raw = self._files.pread(self.file.descriptor(), 43, 0)
            self._first_timestamp = int.from_bytes(raw[35:43], "big", signed=True)
        return self._first_timestamp

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp of the records, -1 without any. For a sealed segment, the last time index entry has
        it."""
        if self._max_timestamp is None:
            self._load_max_timestamp()
        return self._max_timestamp if self._max_timestamp is not None else -1

    @property
    def knows_max_timestamp(self) -> bool:
        """Whether `max_timestamp` is known without reading the time index."""
        return self._max_timestamp is not None

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that has the highest timestamp, -1 if none."""
        return self._offset_of_max_timestamp if self.max_timestamp >= 0 else -1

    def _load_max_timestamp(self) -> None:
        last = self.time_index.last()
        self._max_timestamp, self._offset_of_max_timestamp = -1, -1
        if last is not None:
            self._max_timestamp, self._offset_of_max_timestamp = last[0], self.base_offset + last[1]

    def _scan_max_timestamp(self) -> None:
        """Look for a later timestamp behind the last time index entry, as a truncated segment may have one."""
        start = self.index.lookup(max(self._offset_of_max_timestamp - self.base_offset, 0))
        for batch in self.good_batches(start, self.size):
            if batch.header.max_timestamp > self.max_timestamp:
                self._max_timestamp = batch.header.max_timestamp
                self._offset_of_max_timestamp = batch.header.last_offset

    def largest_timestamp_ms(self) -> int:
        """The time that `retention.ms` counts from: the highest timestamp, or the file's time without timestamps."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return int(self._files.stat(self.file.path).st_mtime_ns // 1_000_000)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end: int, min_one: bool) -> FetchedData | None:
        """Batches from the one that holds ``offset`` (or follows it) up to position ``end``; None if this segment has
        none. OSError, CorruptLog."""
        position = self._tail.get(offset, -1)
        first_size = 0
        if position < 0:
            found = self.find(offset)
            if self.bad:
                self._refuse_damage(offset, found)
            if found is None:
                return None
            position, first_size = found.position, found.size
        if self.bad:
            end = min([end, *(damage.position for damage in self.bad if damage.position > position)])
        size = end - position
        if size > max_bytes:
            first_size = first_size or self._batch_size(position)
            if first_size > max_bytes and not min_one:
                return NO_DATA
            size = max(max_bytes, first_size)
        return NO_DATA if size <= 0 else self._range(position, size)

    def _range(self, position: int, size: int) -> FetchedData:
        file = self.file
        file.touched = True
        fd = file.fd if file.fd >= 0 else file.descriptor()
        if size <= SMALL_READ:
            data = self._files.pread(fd, size, position)
            return FetchedData(data, len(data))
        return FetchedData(FileRange(fd, position, size, file), size)

    def _batch_size(self, position: int) -> int:
        raw = self._files.pread(self.file.descriptor(), 4, position + 8)
        return int.from_bytes(raw, "big") + 12

    def aborted(self) -> Iterator[AbortedTransaction]:
        """The entries of the transaction index, in the order of the markers."""
        if not self.txn_index.loaded and not self._files.exists(self.txn_index.path):
            return iter(())
        return self.txn_index.entries()

    def find(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at or beyond an offset. Damage is skipped. OSError, CorruptLog."""
        position = self.index.lookup(offset - self.base_offset)
        if self.bad:
            return self._find_around(offset, position)
        return find_batch(self._files, self.file.descriptor(), self.file.path, offset, position, self.size)

    def _find_around(self, offset: int, position: int) -> BatchPosition | None:
        for damage in self.bad:
            if damage.end <= position:
                continue
            if position < damage.position:
                fd, path = self.file.descriptor(), self.file.path
                found = find_batch(self._files, fd, path, offset, position, damage.position)
                if found is not None:
                    return found
            position = damage.end
        return find_batch(self._files, self.file.descriptor(), self.file.path, offset, position, self.size)

    def good_batches(self, start: int, end: int) -> Iterator[ScannedBatch]:
        """Every batch between two positions, without checksums checked. Known damage is skipped. OSError,
        CorruptLog."""
        fd, path = self.file.descriptor(), self.file.path
        for damage in [*self.bad, Damage(end, end, "")]:
            yield from scan(self._files, fd, path, start, min(damage.position, end), check_crc=False)
            start = max(start, damage.end)

    def _refuse_damage(self, offset: int, found: BatchPosition | None) -> None:
        """Raise CorruptLog if the batch with an offset lies in a damaged range."""
        for damage in self.bad:
            if (found is None and damage.end >= self.size) or (
                found is not None and found.position == damage.end and found.base_offset > offset
            ):
                raise CorruptLog(self.file.path, damage.position, damage.why)

    def is_new(self, offset: int) -> bool:
        """Whether an offset is that of a batch which this process appended lately."""
        return self._tail.get(offset, -1) >= self.unverified

    def has_transaction_index(self) -> bool:
        """Whether there is a transaction index, in memory or as a file."""
        return self.txn_index.loaded or self._files.exists(self.txn_index.path)

    def replace_indexes(self, offsets: bytes, times: bytes, last_offset: int, end: int) -> None:
        """Replace the index entries for the batches below position ``end``, which end with ``last_offset``. Entries for
        later batches stay. OSError."""
        relative = last_offset - self.base_offset
        newer = b"".join(self.index.entry.pack(*each) for each in self.index.entries() if end <= each[1] < self.size)
        if end < self.size:
            times += b"".join(
                self.time_index.entry.pack(*each) for each in self.time_index.entries() if each[1] > relative
            )
        self.index.replace(offsets + newer)
        self.time_index.replace(times)
        self._first_timestamp = None
        self._load_max_timestamp()
        self._scan_max_timestamp()

    def replace_transactions(self, entries: Sequence[AbortedTransaction]) -> None:
        """Replace all entries of the transaction index. OSError."""
        self.txn_index.clear()
        for entry in entries:
            self.txn_index.append(entry)
        self.txn_index.flush()

    def mark_verified(self) -> None:
        """Note that the whole file was verified."""
        self.unverified = 0

    def position_before(self, offset: int) -> int:
        """The position at which the batches wholly below an offset end. OSError, CorruptLog."""
        position = self._tail.get(offset, -1)
        if position >= 0:
            return position
        found = self.find(offset)
        return self.size if found is None else found.position

    def offset_beyond(self, offset: int, size: int) -> int | None:
        """An offset, from the index, that a read of ``size`` bytes from ``offset`` on does not reach; None if the read
        may reach the segment's end."""
        found = self.find(offset)
        relative = None if found is None else self.index.first_at_or_after(found.position + size)
        return None if relative is None else self.base_offset + relative

    def next_offset(self) -> int:
        """The offset after the last batch, scanning from the last index entry on. CorruptLog, CorruptIndex."""
        last = self.index.last()
        position, next_offset = (0, self.base_offset) if last is None else (last[1], self.base_offset + last[0])
        if last is not None:
            entry = find_batch(self._files, self.file.descriptor(), self.file.path, -1, position, self.size)
            if entry is None or entry.last_offset != next_offset:
                raise CorruptIndex(f"{self.index.path}: entry {last} does not fit its batch")
        while position < self.size:
            found = self._find_around(next_offset, position)
            if found is None:
                break
            position, next_offset = found.position + found.size, found.last_offset + 1
            if position > self.size:
                raise CorruptLog(self.file.path, found.position, "the file ends inside its last batch")
        return next_offset

    # -- creating, rebuilding, truncating, sealing ---------------------------------------------------------------------

    def create_files(self, *, leftovers: bool = True) -> None:
        """Create the files of a new segment. With ``leftovers``, existing files of that name are removed first.
        OSError."""
        for path in self.paths() if leftovers else ():
            self._files.unlink(path)
        self.file.descriptor(create=True)
        self.index.ensure_file()
        self.time_index.ensure_file()

    def discard(self) -> None:
        """Undo `create_files` as far as possible."""
        self.file.close()
        for path in self.paths():
            try:
                self._files.unlink(path)
            except OSError:
                continue

    def reset_indexes(self, *, transactions: bool = False) -> None:
        """Drop all index entries and the size: the caller calls `note_batch` for every batch from the first on."""
        self.index.clear()
        self.time_index.clear()
        if transactions and self._files.exists(self.txn_index.path):
            self._files.unlink(self.txn_index.path)
            self.txn_index.clear()
        self._tail.clear()
        self.size = 0
        self.bytes_since_index_entry = 0
        self._first_timestamp = None
        self._max_timestamp, self._offset_of_max_timestamp = -1, -1

    def truncate(self, offset: int) -> None:
        """Drop the batch that holds ``offset`` and all after it. OSError."""
        found = self.find(offset)
        position = self.size if found is None else found.position
        self._files.ftruncate(self.file.descriptor(), position)
        self.size = position
        self.unverified = min(self.unverified, position)
        self.bad = [damage for damage in self.bad if damage.position < position]
        self.needs_truncation = False
        self._tail.clear()
        self.index.truncate(offset - self.base_offset)
        self.time_index.truncate(offset - self.base_offset)
        if self._files.exists(self.txn_index.path):
            self.txn_index.truncate(offset)
        self.bytes_since_index_entry = 0
        self._first_timestamp = None
        self._load_max_timestamp()
        self._scan_max_timestamp()

    def seal(self) -> None:
        """Complete the indexes after the last append, and free their memory. OSError."""
        self.note_max_timestamp()
        self._tail.clear()
        self.flush_indexes()
        self.index.unload()
        self.time_index.unload()

    def flush_indexes(self) -> bool:
        """Bring the index files up to date. Returns whether they need a sync. OSError."""
        wrote = self.index.flush()
        wrote |= self.time_index.flush()
        self.indexes_unsynced |= wrote
        self.index.ensure_file()
        self.time_index.ensure_file()
        return self.indexes_unsynced

    def paths(self) -> list[str]:
        """The files that exist now."""
        candidates = (self.file.path, self.index.path, self.time_index.path, self.txn_index.path)
        return [path for path in candidates if self._files.exists(path)]

    def file_retired(self) -> None:
        """Free the memory of an idle segment's indexes; they are loaded again on use."""
        try:
            self.flush_indexes()
            self.index.unload()
            self.time_index.unload()
            self.txn_index.unload()
        except OSError:
            pass  # what could not be written stays in memory
