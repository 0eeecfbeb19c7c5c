"""The three index files beside a segment's `.log`, in Kafka's formats, big-endian:

    .index       relative offset:int32  position:int32        the batch at `position` ends at that offset
    .timeindex   timestamp:int64        relative offset:int32 no record up to that offset is younger
    .txnindex    version:int16 producer_id first_offset last_offset last_stable_offset:int64 each

Offset and time index are sparse: one entry per `index.interval.bytes`. Entries live in memory while the segment is used
and are written to the file many at a time: what a crash loses is rebuilt from the segment. A transaction index exists
only if a transaction was aborted. `segment` decides which batch gets an entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct

from kwire.base.doors import Files
from kwire.log.common.append_info import AbortedTransaction

_OFFSET_ENTRY = Struct(">ii")
_read_offset_entry = _OFFSET_ENTRY.unpack_from
_read_two_offset_entries = Struct(">iiii").unpack_from
_NEAR = 64
"""How many entries a guessed place may be off before all entries of that side are searched."""
_TIME_ENTRY = Struct(">qi")
_TXN_ENTRY = Struct(">hqqqq")


class CorruptIndex(Exception):
    """An index file that does not fit its segment; it can be rebuilt from the segment."""


class _EntryFile:
    """Entries of one size in a file that only grows or is truncated. They are loaded on first use.

    The path is ``path`` with ``suffix``, kept apart because the files of one segment share the longer part. ``new``:
    there are no entries yet, whatever the file has.
    """

    __slots__ = ("_cleared", "_data", "_files", "_is_new", "_stem", "_suffix", "_written")
    entry: Struct

    def __init__(self, files: Files, path: str, *, new: bool, suffix: str = "") -> None:
        self._files = files
        self._stem = path
        self._suffix = suffix
        self._is_new = new
        self._data: bytearray | None = None
        self._written = 0  # bytes of _data that are in the file
        self._cleared = False  # the whole file is to be replaced

    @property
    def path(self) -> str:
        """The file."""
        return self._stem + self._suffix

    @property
    def data(self) -> bytearray:
        """The entries, packed; loads them. OSError."""
        if self._data is None:
            raw = self._files.read(self.path) if not self._is_new and self._files.exists(self.path) else b""
            self._is_new = False
            self._written = len(raw)
            self._data = bytearray(raw[: len(raw) - len(raw) % self.entry.size])
        return self._data

    @property
    def loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._data is not None or self._is_new

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.data) // self.entry.size

    def flush(self) -> bool:
        """Bring the file up to date (not synced). Whether it was not. OSError."""
        data = self._data
        if data is None or (self._written == len(data) and not self._cleared):
            return False
        fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if self._cleared:
                self._files.ftruncate(fd, 0)
                self._written, self._cleared = 0, False
            if self._written > len(data):
                self._files.ftruncate(fd, len(data))
            elif self._written < len(data):
                self._files.pwrite(fd, data[self._written :], self._written)
            self._written = len(data)
        finally:
            self._files.close(fd)
        return True

    def ensure_file(self) -> None:
        """Create the file even without an entry: Kafka has one beside every segment."""
        if not self._files.exists(self.path):
            self._files.close(self._files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def unload(self) -> None:
        """Flush, and free the memory of the entries. OSError."""
        self.flush()
        self._data, self._is_new = None, False

    def clear(self) -> None:
        """Drop all entries, to be rebuilt."""
        self._cleared = self._files.exists(self.path)
        self._written = 0
        self._data = bytearray()

    def replace(self, data: bytes) -> None:
        """Replace all entries, and write the file. OSError."""
        self.clear()
        self._data = bytearray(data)
        self.flush()

    def _shorten(self, size: int) -> None:
        data = self.data
        del data[size:]
        if self._written > size:
            self.flush()  # at once: the file must not have entries for batches that were removed


class OffsetIndex(_EntryFile):
    """Relative last offset of a batch -> position of that batch. Offsets and positions both rise."""

    entry = _OFFSET_ENTRY
    __slots__ = ()

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry behind the last one."""
        self.data.extend(_OFFSET_ENTRY.pack(relative_offset, position))

    def lookup(self, relative_offset: int) -> int:
        """Where to start scanning for an offset: the position of the last entry at or before it, or 0."""
        data = self.data
        count = len(data) // 8
        if not count:
            return 0
        last, position = _read_offset_entry(data, count * 8 - 8)
        if last <= relative_offset:
            return int(position)
        low, high = 0, count - 1  # of the first entry beyond the offset
        guess = relative_offset * count // (last + 1)  # right if all batches are alike
        if guess > 0:
            before, position, following, _ = _read_two_offset_entries(data, guess * 8 - 8)
            if before <= relative_offset < following:
                return int(position)
            if before > relative_offset:
                high, near = guess - 1, guess - _NEAR
                if near > 0 and _read_offset_entry(data, near * 8 - 8)[0] <= relative_offset:
                    low = near
            else:
                low, near = guess + 1, guess + _NEAR
                if near < high and _read_offset_entry(data, near * 8)[0] > relative_offset:
                    high = near
        while low < high:
            middle = (low + high) // 2
            if _read_offset_entry(data, middle * 8)[0] <= relative_offset:
                low = middle + 1
            else:
                high = middle
        return int(_read_offset_entry(data, low * 8 - 8)[1]) if low else 0

    def first_at_or_after(self, position: int) -> int | None:
        """The relative offset of the first entry whose batch begins at a position or later; None without one."""
        data = self.data
        low, high = 0, len(data) // 8
        while low < high:
            middle = (low + high) // 2
            if _OFFSET_ENTRY.unpack_from(data, middle * 8)[1] < position:
                low = middle + 1
            else:
                high = middle
        return None if low * 8 >= len(data) else int(_OFFSET_ENTRY.unpack_from(data, low * 8)[0])

    def last(self) -> tuple[int, int] | None:
        """The last entry: relative offset, position."""
        data = self.data
        if not data:
            return None
        relative_offset, position = _OFFSET_ENTRY.unpack_from(data, len(data) - 8)
        return relative_offset, position

    def truncate(self, relative_offset: int) -> None:
        """Drop the entries at and beyond a relative offset. OSError."""
        data = self.data
        size = len(data)
        while size and _OFFSET_ENTRY.unpack_from(data, size - 8)[0] >= relative_offset:
            size -= 8
        self._shorten(size)

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries: relative offset, position."""
        return _OFFSET_ENTRY.iter_unpack(self.data)

    def check(self, segment_size: int) -> None:
        """Raise CorruptIndex if the last entry lies outside the segment (Kafka's sanity check)."""
        data = self.data
        if self._written % 8:
            raise CorruptIndex(f"{self.path}: {self._written} bytes are not a whole number of entries")
        if data:
            relative_offset, position = _OFFSET_ENTRY.unpack_from(data, len(data) - 8)
            if relative_offset <= 0 or not 0 <= position < segment_size:
                raise CorruptIndex(f"{self.path}: last entry ({relative_offset}, {position}) lies outside the segment")


class TimeIndex(_EntryFile):
    """Highest timestamp so far -> relative offset of the batch that has it. Timestamps rise."""

    entry = _TIME_ENTRY
    __slots__ = ()

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if its timestamp is later than the last one's."""
        data = self.data
        if not data or _TIME_ENTRY.unpack_from(data, len(data) - 12)[0] < timestamp:
            data.extend(_TIME_ENTRY.pack(timestamp, relative_offset))

    def lookup(self, timestamp: int) -> int:
        """The relative offset of the last entry at or before a timestamp, or 0."""
        data = self.data
        low, high = 0, len(data) // 12
        while low < high:  # first entry later than the timestamp
            middle = (low + high) // 2
            if _TIME_ENTRY.unpack_from(data, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return 0 if low == 0 else int(_TIME_ENTRY.unpack_from(data, low * 12 - 12)[1])

    def last(self) -> tuple[int, int] | None:
        """The last entry: timestamp, relative offset."""
        data = self.data
        if not data:
            return None
        timestamp, relative_offset = _TIME_ENTRY.unpack_from(data, len(data) - 12)
        return timestamp, relative_offset

    def truncate(self, relative_offset: int) -> None:
        """Drop the entries at and beyond a relative offset. OSError."""
        data = self.data
        size = len(data)
        while size and _TIME_ENTRY.unpack_from(data, size - 12)[1] >= relative_offset:
            size -= 12
        self._shorten(size)

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries: timestamp, relative offset."""
        return _TIME_ENTRY.iter_unpack(self.data)

    def check(self) -> None:
        """Raise CorruptIndex if the last entry is older than the first (Kafka's sanity check)."""
        data = self.data
        if self._written % 12:
            raise CorruptIndex(f"{self.path}: {self._written} bytes are not a whole number of entries")
        if data:
            timestamp, relative_offset = _TIME_ENTRY.unpack_from(data, len(data) - 12)
            if timestamp < _TIME_ENTRY.unpack_from(data, 0)[0] or relative_offset < 0:
                raise CorruptIndex(f"{self.path}: last entry ({timestamp}, {relative_offset}) is out of order")


class TransactionIndex(_EntryFile):
    """Aborted transactions whose marker lies in the segment, in the order of their markers."""

    entry = _TXN_ENTRY
    __slots__ = ()

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry, and write it to the file at once: there are few, and consumers must not miss one. OSError."""
        self.data.extend(_TXN_ENTRY.pack(0, *aborted))
        self.flush()

    def entries(self) -> Iterator[AbortedTransaction]:
        """All entries."""
        for _version, *rest in _TXN_ENTRY.iter_unpack(self.data):
            yield AbortedTransaction(*rest)

    def truncate(self, offset: int) -> None:
        """Drop the transactions that end at or beyond an absolute offset. OSError."""
        data = self.data
        size = len(data)
        while size and _TXN_ENTRY.unpack_from(data, size - _TXN_ENTRY.size)[3] >= offset:
            size -= _TXN_ENTRY.size
        self._shorten(size)

    def check(self, base_offset: int) -> None:
        """Raise CorruptIndex for a version other than 0 or an entry that ends before its segment."""
        if self._written % _TXN_ENTRY.size:
            raise CorruptIndex(f"{self.path}: {self._written} bytes are not a whole number of entries")
        for version, _producer_id, _first, last, _stable in _TXN_ENTRY.iter_unpack(self.data):
            if version != 0 or last < base_offset:
                raise CorruptIndex(f"{self.path}: entry of version {version} ends at {last}")
