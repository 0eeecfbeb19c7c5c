"""The offset map of a cleaning: the last offset of every key in the dirty part of a log, in bounded memory.

Keys are kept as they are up to 32 bytes, beyond that as a digest of 33: exact for the short, and for the long as safe
as a hash of 264 bits. A dictionary of Python takes about `ENTRY_BYTES` for each; a buffer of the size that
`log.cleaner.dedupe.buffer.size` gives therefore holds fewer keys than Kafka's (24 bytes each), and a dirty part of more
keys takes more rounds. An open-addressing table in a bytearray would need a third of the memory and ten times the time.

What the second pass asks is mostly "which offsets of this batch survive?", and that a sorted array answers without
looking at the batch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from kwire.codec.records.header import BatchHeader
from kwire.log.compaction.records import index_dense_keys, index_keys, walk

ENTRY_BYTES = 192
"""Measured: key of 32 bytes, offset, and their share of a dictionary that has just grown."""


def is_dense(header: BatchHeader) -> bool:
    """Whether a batch has a record for every offset it spans."""
    return header.count == header.last_offset_delta + 1


class OffsetMap:
    """Filled batch by batch in offset order, then asked. Reusable after `clear`."""

    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        self.capacity = max(int(buffer_bytes * load_factor) // ENTRY_BYTES, 1)
        self.clear()

    def clear(self) -> None:
        self._entries: dict[bytes, int] = {}
        self._survivors: array[int] | None = None
        self.first_offset = 0  # records below were not entered
        self.latest_offset = -1  # all records up to here were looked at
        self.keyless = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note_end(self, offset: int) -> None:
        """Everything up to an offset has been looked at."""
        self.latest_offset = max(self.latest_offset, offset)

    def add_batch(self, header: BatchHeader, body: bytes) -> bool:
        """Enter a batch's records. False if the map is full before the batch ends: `latest_offset` tells how far it
        got. IndexError, InvalidRecords."""
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

    # Asking

    def is_last(self, key: bytes, offset: int) -> bool:
        """Whether no later record of a key (as `map_key` has it) is known."""
        found = self._entries.get(key)
        return found is None or offset >= found >> 1

    def survivors(self, first_offset: int, last_offset: int) -> array[int]:
        """Which records between two offsets, both within what was looked at, are the last of their keys: twice their
        offsets, plus 1 for tombstones, ascending."""
        if self._survivors is None:
            self._survivors = array("q", sorted(self._entries.values()))
        found = self._survivors
        low = bisect_left(found, first_offset * 2)
        return found[low : bisect_left(found, last_offset * 2 + 2, low)]

    def covers(self, header: BatchHeader) -> bool:
        """Whether `survivors` can tell about a batch."""
        return header.base_offset >= self.first_offset and header.last_offset <= self.latest_offset
