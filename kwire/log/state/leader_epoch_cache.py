"""Which leader epoch began at which offset (KIP-101, KIP-279): `leader-epoch-checkpoint` and its copy in memory.

With it followers and consumers find where their log diverges from the leader's. The file is written when an epoch
begins (rarely), without a sync; it is synced together with sealed segments. What a power loss takes from it is read
back from the batches, each of which has its leader epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from kwire.base.doors import Files
from kwire.log.common.checkpoints import LEADER_EPOCH_FILE, CorruptCheckpoint, join_lines, read_lines, write_text


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


NO_EPOCH = -1


class LeaderEpochCache:
    """The leader epochs of one log; epochs and start offsets both rise. ``dirty``: the file could not be written."""

    def __init__(self, files: Files, directory: str, entries: list[EpochEntry] | None = None) -> None:
        self._files = files
        self.path = f"{directory}/{LEADER_EPOCH_FILE}"
        self._entries: list[EpochEntry] = entries or []
        self.dirty = False
        self._held = False

    @classmethod
    def load(cls, files: Files, directory: str) -> LeaderEpochCache:
        """Read the file; without it the cache is empty. CorruptCheckpoint, OSError."""
        cache = cls(files, directory)
        try:
            for epoch, start_offset in read_lines(files, cache.path) or []:
                cache._entries.append(EpochEntry(int(epoch), int(start_offset)))
        except ValueError as error:
            raise CorruptCheckpoint(f"{cache.path}: {error}") from error
        if any(a >= b or c > d for (a, c), (b, d) in zip(cache._entries, cache._entries[1:], strict=False)):
            raise CorruptCheckpoint(f"{cache.path}: epochs or offsets are not ascending")
        return cache

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All epochs, ascending."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 if none is known."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that a batch of ``epoch`` was appended at ``start_offset``; adds an entry if the epoch is new."""
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset):
            return
        # An entry that starts at or beyond this one has no record.
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        # Recovery may read the batches of an epoch from its middle on: the known start offset stays.
        begun = [entry.start_offset for entry in entries if entry.epoch == epoch and entry.start_offset < start_offset]
        self._replace([*kept, EpochEntry(epoch, begun[0] if begun else start_offset)])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the record at an offset, -1 if it lies before the first known one."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else NO_EPOCH

    def begun_within(self, epoch: int, start: int, end: int) -> int:
        """The start offset of an epoch if it is known and lies between two offsets; else the second of them."""
        if start < end:
            for entry in self._entries:
                if entry.epoch == epoch and start <= entry.start_offset < end:
                    return entry.start_offset
        return end

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the requested one; it ends where the next one starts.

        (-1, -1) if that is unknown: the epoch is newer than all, or there is none. For an epoch older than all, the
        result is that epoch and the start offset of the first (OffsetForLeaderEpoch, KIP-101).
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
        """Remove the epochs that start at or beyond the new end of the log."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or before the new log start offset; the epoch of that offset starts there."""
        entries = self._entries
        at = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if at > 1 or (at and entries[0].start_offset < start_offset):
            self._replace([EpochEntry(entries[at - 1].epoch, start_offset), *entries[at:]])

    def clear(self) -> None:
        """Remove all epochs."""
        if self._entries:
            self._replace([])

    def hold(self) -> None:
        """Keep changes in memory until `settle`: epochs that recovery has read back in part must not reach the file,
        where they would look complete."""
        self._held = True

    def settle(self, *, later: bool = False) -> None:
        """Write the changes since `hold`, or with ``later`` together with the next change or flush."""
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
            self.dirty = True  # the cache stays right on a full disk; the next flush writes the file

    def write(self, *, sync: bool = False) -> None:
        """Write the file. With ``sync`` it waits for the disk. OSError."""
        write_text(self._files, self.path, self.text(), sync=sync)
        self.dirty = False

    def text(self) -> str:
        """The text of the file."""
        return join_lines([f"{epoch} {start_offset}" for epoch, start_offset in self._entries])
