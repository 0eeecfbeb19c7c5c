"""The leader epoch file held against batches, after a stop that was not orderly.

The file has no checksum: a digit that changed reads as well as the right one. (An orderly stop keeps a copy that has
one.) Batches that recovery replays tell their epochs by themselves; of those before them, the ones on both sides of
each entry are looked at here. Where one says otherwise all of them are read, and either the file is right, and a
batch's header is not, or what the batches say takes its place: whoever is contradicted by fewer batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.base.doors import Files
from kwire.codec.records.header import BatchHeader
from kwire.log.segment.batch_scan import CorruptLog
from kwire.log.segment.indexes import CorruptIndex
from kwire.log.segment.segment import Segment
from kwire.log.state.leader_epoch_cache import EpochEntry, LeaderEpochCache


class EpochDoubts:
    """``noted``: the epochs as their file has them; ``segments``: those that are not replayed, ending at ``upto``."""

    def __init__(self, files: Files, directory: str, noted: LeaderEpochCache, segments: list[Segment], upto: int):
        self._files = files
        self._directory = directory
        self._noted = noted
        self._segments = segments
        self._upto = upto
        self.complaints: list[str] = []

    def settled(self) -> tuple[EpochEntry, ...]:
        """The entries to go on with: those of the file, or those that the batches tell. OSError."""
        entries = self._noted.entries
        try:
            doubtful = next((header for header in self._at_borders() if not self._agrees(self._noted, header)), None)
            if doubtful is None:
                return entries
            told = self._told_by_batches()
            against = self._against(self._noted)
            if against < 2 or self._against(told) >= against:
                self.complaints.append(
                    f"{self._segments[0].file.path}: offset {doubtful.base_offset} has leader epoch "
                    f"{doubtful.partition_leader_epoch}, {self._noted.path} says otherwise and is believed"
                )
                return entries
        except (CorruptLog, CorruptIndex):
            return entries  # what cannot be read bears no witness
        self.complaints.append(f"{self._noted.path}: does not fit the batches; the epochs are read from them")
        return told.entries

    def _at_borders(self) -> Iterator[BatchHeader]:
        """The batches on both sides of each entry, and the last one."""
        first = max(self._noted.entries[0].start_offset, self._segments[0].base_offset)
        starts = [entry.start_offset for entry in self._noted.entries]
        for offset in sorted({*starts, *(start - 1 for start in starts), self._upto - 1}):
            if first <= offset < self._upto:
                yield from self._batch_at(offset)

    def _batch_at(self, offset: int) -> Iterator[BatchHeader]:
        segment = next(each for each in reversed(self._segments) if each.base_offset <= offset)
        found = segment.find(offset)
        if found is not None:
            yield from (batch.header for batch in segment.good_batches(found.position, found.position + found.size))

    def _headers(self) -> Iterator[BatchHeader]:
        for segment in self._segments:
            yield from (batch.header for batch in segment.good_batches(0, segment.size))

    def _told_by_batches(self) -> LeaderEpochCache:
        """Beyond what is looked at the file holds; so does where the first epoch begins, which is the log's start."""
        told = LeaderEpochCache(self._files, self._directory)
        told.hold()
        for header in self._headers():
            told.assign(header.partition_leader_epoch, header.base_offset)
        for entry in self._noted.entries:
            if entry.start_offset >= self._upto and entry.epoch > told.latest_epoch:
                told.assign(entry.epoch, entry.start_offset)
        told.truncate_from_start(self._noted.entries[0].start_offset)
        return told

    def _against(self, epochs: LeaderEpochCache) -> int:
        """How many batches say otherwise."""
        return sum(not self._agrees(epochs, header) for header in self._headers())

    def _agrees(self, epochs: LeaderEpochCache, header: BatchHeader) -> bool:
        """A batch before the first entry agrees, and one that was written before there were epochs."""
        epoch, first = header.partition_leader_epoch, epochs.entries[0].start_offset
        if epoch < 0 or header.last_offset < first:
            return True
        begins, ends = max(header.base_offset, first), header.last_offset
        return epochs.epoch_for_offset(begins) == epoch == epochs.epoch_for_offset(ends)
