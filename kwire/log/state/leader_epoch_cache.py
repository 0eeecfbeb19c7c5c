"""Which leader epoch began at which offset (KIP-101, KIP-279): `leader-epoch-checkpoint` and its copy in memory.

Followers and consumers find with it where their log parts from the leader's. The file is written when an epoch begins
(rarely) without a sync; it is synced together with sealed segments, and what is missing after a power loss is read back
from the batches, each of which carries its epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from kwire.base.doors import Files
from kwire.log.common.checkpoints import LEADER_EPOCH_FILE, CorruptCheckpoint, join_lines, read_lines, write_text


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


NO_EPOCH = -1


class LeaderEpochCache:
    """Epochs of one log, epochs and start offsets both rising."""

    def __init__(self, files: Files, directory: str, entries: list[EpochEntry] | None = None) -> None:
        self._files = files
        self.path = f"{directory}/{LEADER_EPOCH_FILE}"
        self._entries: list[EpochEntry] = entries or []
        self.dirty = False  # the file could not be written
        self._held = False

    @classmethod
    def load(cls, files: Files, directory: str) -> LeaderEpochCache:
        """Read the file; without one the cache is empty. Raises CorruptCheckpoint."""
        cache = cls(files, directory)
        try:
            for epoch, start_offset in read_lines(files, cache.path) or []:
                cache._entries.append(EpochEntry(int(epoch), int(start_offset)))
        except ValueError as error:
            raise CorruptCheckpoint(f"{cache.path}: {error}") from error
        if any(a >= b or c > d for (a, c), (b, d) in zip(cache._entries, cache._entries[1:], strict=False)):
            raise CorruptCheckpoint(f"{cache.path}: epochs or offsets do not rise")
        return cache

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 if none is known."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of ``epoch`` was appended at ``start_offset``. News only if the epoch is new."""
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset):
            return
        # An entry that starts at or beyond this one never came to have a record of its own.
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        # Recovery meets the batches of an epoch from its middle on: it has begun where it had begun.
        begun = [entry.start_offset for entry in entries if entry.epoch == epoch and entry.start_offset < start_offset]
        self._replace([*kept, EpochEntry(epoch, begun[0] if begun else start_offset)])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the record at an offset, -1 if it lies before the first known one."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else NO_EPOCH

    def begun_within(self, epoch: int, start: int, end: int) -> int:
        """Where an epoch began, if that is known and lies between two offsets; else the second of them."""
        if start < end:
            for entry in self._entries:
                if entry.epoch == epoch and start <= entry.start_offset < end:
                    return entry.start_offset
        return end

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the one asked for: where the next one starts.

        (-1, -1) if the answer is not known: an epoch newer than all, or nothing recorded. An epoch older than all gets
        itself and the start of the first.
        """
        entries = self._entries
        if epoch == NO_EPOCH or not entries or epoch > entries[-1].epoch:
            return NO_EPOCH, -1
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        at = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if at == 0:
            return epoch, entries[0].start_offset
        return entries[at - 1].epoch, entries[at].start_offset

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or beyond the new end of the log."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at or before the new start; the one in force there now starts there."""
        entries = self._entries
        at = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if at > 1 or (at and entries[0].start_offset < start_offset):
            self._replace([EpochEntry(entries[at - 1].epoch, start_offset), *entries[at:]])

    def clear(self) -> None:
        if self._entries:
            self._replace([])

    def hold(self) -> None:
        """Keep changes in memory until `settle`: half of what recovery reads back must not reach the disk, where it
        would look whole."""
        self._held = True

    def settle(self, *, later: bool = False) -> None:
        """Write what was held back; ``later``: with the next change or flush."""
        self._held = False
        if self.dirty and not later:
            self._replace(self._entries)

    def _replace(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        if self._held:
            self.dirty = True
            return
        try:
            self.write()
        except OSError:
            self.dirty = True  # a full disk must not fail what memory knows; the next flush writes it

    def write(self, *, sync: bool = False) -> None:
        """Write the file. With ``sync`` it blocks: off the loop."""
        write_text(self._files, self.path, self.text(), sync=sync)
        self.dirty = False

    def text(self) -> str:
        return join_lines([f"{epoch} {start_offset}" for epoch, start_offset in self._entries])
