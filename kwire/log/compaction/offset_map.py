"""The offset map of a cleaning: the last offset of every key in the dirty part of a log, in bounded memory.

Keys of up to 32 bytes are kept as they are, longer ones as a hash of 33 bytes (264 bits). A Python dictionary takes
about `ENTRY_BYTES` for each, so that a buffer of `log.cleaner.dedupe.buffer.size` holds fewer keys than Kafka's (24
bytes each), and a dirty part with more keys takes more rounds. An open-addressing table in a bytearray would need a
third of the memory and ten times the time.

The second pass mostly needs the offsets of a batch that survive: a sorted array gives them without reading the batch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from kwire.codec.records.header import BatchHeader
from kwire.log.compaction.records import index_dense_keys, index_keys, walk

ENTRY_BYTES = 192
"""Measured: a key of 32 bytes, its offset, and their share of a dictionary that has just grown."""


def is_dense(header: BatchHeader) -> bool:
    """Whether a batch has a record for every offset it spans."""
    return header.count == header.last_offset_delta + 1


class OffsetMap:
    """Filled batch by batch in offset order, then queried. ``first_offset``: records below it are not in the map.
    ``latest_offset``: all records up to it are."""

    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        self.capacity = max(int(buffer_bytes * load_factor) // ENTRY_BYTES, 1)
        self._entries: dict[bytes, int] = {}
        self._survivors: array[int] | None = None
        self.first_offset = 0
        self.latest_offset = -1
        self.keyless = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note_end(self, offset: int) -> None:
        """Note that everything up to an offset was read."""
        self.latest_offset = max(self.latest_offset, offset)

    def add_batch(self, header: BatchHeader, body: bytes) -> bool:
        """Add a batch's records. False if the map is full before the batch ends: then `latest_offset` is the last one
        added. IndexError, InvalidRecords."""
        if header.base_offset < self.first_offset or len(self._entries) + header.count > self.capacity:
            return self._add_slowly(header, body)
        index = index_dense_keys if is_dense(header) else index_keys
        self.keyless += index(self._entries, body, header.count, header.base_offset)
        self.note_end(header.last_offset)
        return True

    def _add_slowly(self, header: BatchHeader, body: bytes) -> bool:
        entries, base_offset = self._entries, header.base_offset
        for record in walk(body, header.count):
            offset = base_offset + record.offset_delta
            if offset < self.first_offset:
                continue
            if record.key is None:
                self.keyless += 1
            elif record.key not in entries and len(entries) >= self.capacity:
                return False
            else:
                entries[record.key] = offset * 2 + record.is_tombstone
            self.note_end(offset)
        self.note_end(header.last_offset)
        return True

    # -- querying ------------------------------------------------------------------------------------------------------

    def is_last(self, key: bytes, offset: int) -> bool:
        """Whether the map has no later record of a key (in the form of `map_key`)."""
        found = self._entries.get(key)
        return found is None or offset >= found >> 1

    def survivors(self, first_offset: int, last_offset: int) -> array[int]:
        """The records between two offsets, both covered by the map, that are the last of their keys: twice their
        offsets, plus 1 for tombstones, ascending."""
        if self._survivors is None:
            self._survivors = array("q", sorted(self._entries.values()))
        found = self._survivors
        low = bisect_left(found, first_offset * 2)
        return found[low : bisect_left(found, last_offset * 2 + 2, low)]

    def covers(self, header: BatchHeader) -> bool:
        """Whether the map covers all offsets of a batch, so that `survivors` can be used."""
        return header.base_offset >= self.first_offset and header.last_offset <= self.latest_offset
