"""Comparing the leader epoch file with the batches, after an unclean shutdown.

The file has no checksum, so that a corrupted digit in it would go unnoticed. (A clean shutdown keeps a copy with one.)
The batches that recovery replays have their epochs in their headers. Of the batches before them, those on both sides of
each entry are read here. If one differs from the file, all of them are read. Then either the file is kept, because the
header of a batch is wrong, or the epochs of the batches replace it: whichever contradicts fewer batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.base.doors import Files
from kwire.codec.records.header import BatchHeader
from kwire.log.segment.batch_scan import CorruptLog
from kwire.log.segment.indexes import CorruptIndex
from kwire.log.segment.segment import Segment
from kwire.log.state.leader_epoch_cache import EpochEntry, LeaderEpochCache


class EpochVerification:
    """``from_file`` are the epochs of the file; ``segments`` are those that are not replayed, ending at offset
    ``upto``. ``complaints`` says in one line each what differs."""

    def __init__(self, files: Files, directory: str, from_file: LeaderEpochCache, segments: list[Segment], upto: int):
        self._files = files
        self._directory = directory
        self._from_file = from_file
        self._segments = segments
        self._upto = upto
        self.complaints: list[str] = []

    def verified_entries(self) -> tuple[EpochEntry, ...]:
        """The entries to use: those of the file, or those read from the batches. OSError."""
        entries = self._from_file.entries
        try:
            different = next(
                (header for header in self._at_borders() if not self._agrees(self._from_file, header)), None
            )
            if different is None:
                return entries
            from_batches = self._from_batches()
            contradicting = self._count_contradicting(self._from_file)
            if contradicting < 2 or self._count_contradicting(from_batches) >= contradicting:
                self.complaints.append(
                    f"{self._segments[0].file.path}: offset {different.base_offset} has leader epoch "
                    f"{different.partition_leader_epoch}, {self._from_file.path} has another one and is used"
                )
                return entries
        except (CorruptLog, CorruptIndex):
            return entries  # the batches cannot be read
        self.complaints.append(f"{self._from_file.path}: differs from the batches; the epochs are read from them")
        return from_batches.entries

    def _at_borders(self) -> Iterator[BatchHeader]:
        """The batches on both sides of each entry, and the last one."""
        first = max(self._from_file.entries[0].start_offset, self._segments[0].base_offset)
        starts = [entry.start_offset for entry in self._from_file.entries]
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

    def _from_batches(self) -> LeaderEpochCache:
        """The epochs in the headers. The file decides about epochs beyond ``upto``, and about the start of the first
        one, which is the log start offset."""
        epochs = LeaderEpochCache(self._files, self._directory)
        epochs.hold()
        for header in self._headers():
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        for entry in self._from_file.entries:
            if entry.start_offset >= self._upto and entry.epoch > epochs.latest_epoch:
                epochs.assign(entry.epoch, entry.start_offset)
        epochs.truncate_from_start(self._from_file.entries[0].start_offset)
        return epochs

    def _count_contradicting(self, epochs: LeaderEpochCache) -> int:
        """How many batches have another epoch than these epochs."""
        return sum(not self._agrees(epochs, header) for header in self._headers())

    def _agrees(self, epochs: LeaderEpochCache, header: BatchHeader) -> bool:
        """Whether a batch has the epoch of its offsets. Batches before the first entry or without an epoch agree."""
        epoch, first = header.partition_leader_epoch, epochs.entries[0].start_offset
        if epoch < 0 or header.last_offset < first:
            return True
        begins, ends = max(header.base_offset, first), header.last_offset
        return epochs.epoch_for_offset(begins) == epoch == epochs.epoch_for_offset(ends)
