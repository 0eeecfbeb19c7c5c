"""Validating base offset and leader epoch of a batch: the two header fields that its checksum does not cover.

They are compared with the batches before and after it, with the base offset of the next segment, and with the leader
epoch file as it was found. `PartitionLog` writes that file before the first batch of an epoch: after a kill it has the
epoch of every batch; after a power loss it may lack the last ones, which had not been synced.

A wrong field is corrected in the `.log` file, with a complaint, if the other sources agree. If they do not, the batch
is damaged (`CorruptLog`). So is one with a plausible leader epoch that neither the file nor another batch confirms:
after a kill that is a flipped bit; after a power loss it may be right beside an old file, but then it was never synced.
`recovery` decides whether the log ends at damage.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.base.doors import Files
from kwire.codec.errors import CodecError
from kwire.codec.records.header import HEADER_SIZE, BatchHeader, parse_header
from kwire.log.common.file_cache import LogFile
from kwire.log.common.log_config import INT64_MAX
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch
from kwire.log.state.leader_epoch_cache import NO_EPOCH, LeaderEpochCache

RELATIVE_OFFSET_MAX = 0x7FFFFFFF


class Following(NamedTuple):
    """What comes after a batch. ``next_offset`` is -1 if that is the next segment, of which the name is known."""

    base_offset: int
    epoch: int
    next_offset: int


class HeaderValidator:
    """Validates the batches of one segment in their order. ``limit`` is the next segment's base offset, INT64_MAX for
    the last one; ``epoch`` is that of the batch before; ``from_file`` are the leader epochs of the file."""

    def __init__(
        self,
        files: Files,
        file: LogFile,
        base_offset: int,
        end: int,
        limit: int,
        epoch: int,
        from_file: LeaderEpochCache,
    ) -> None:
        self._files = files
        self._file = file
        self._path = file.path
        self._base_offset = base_offset
        self._end = end
        self._limit = limit
        self._from_file = from_file
        self._latest = from_file.latest_epoch
        self._epoch = epoch
        self._confirmed = epoch == from_file.epoch_for_offset(
            base_offset - 1
        )  # whether the last batch and the file agree
        self.complaints: list[str] = []

    def validate(self, batch: ScannedBatch, due: int, *, gaps: bool) -> BatchHeader:
        """The header, corrected if it was wrong. ``due`` is the offset after the last batch; with ``gaps``, batches may
        be missing at the end of the log. CorruptLog, OSError."""
        header = batch.header
        if header.base_offset != due:
            offset = self._right_offset(batch, due, gaps)
            if offset != header.base_offset:
                self._correct(batch.position, 0, offset.to_bytes(8, "big"), f"offset {header.base_offset}", offset)
                header = header._replace(base_offset=offset)
        if header.last_offset - self._base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptLog(
                self._path, batch.position, f"offset {header.last_offset} is too far from the segment's base offset"
            )
        known = self._from_file.epoch_for_offset(header.base_offset)
        epoch = header.partition_leader_epoch
        if epoch != known:
            right = self._right_epoch(batch, header, known)
            if right != epoch:
                what = f"leader epoch {epoch} of offset {header.base_offset}"
                self._correct(batch.position, 12, right.to_bytes(4, "big", signed=True), what, right)
                header = header._replace(partition_leader_epoch=right)
        self._confirmed = header.partition_leader_epoch == known
        self._epoch = header.partition_leader_epoch
        return header

    def _correct(self, position: int, at: int, data: bytes, what: str, right: int) -> None:
        self._files.pwrite(self._file.descriptor(), data, position + at)
        self.complaints.append(f"{self._path} at position {position}: {what} is wrong and was corrected to {right}")

    def _right_offset(self, batch: ScannedBatch, due: int, gaps: bool) -> int:
        header = batch.header
        following = self._following(batch, header)
        if following is not None and following.base_offset == due + header.last_offset_delta + 1:
            return due  # there it fits exactly between its neighbours
        if header.base_offset < due:
            raise CorruptLog(self._path, batch.position, "its offsets are those of earlier batches")
        if following is not None and following.base_offset < header.next_offset:
            raise CorruptLog(self._path, batch.position, f"offset {header.base_offset} instead of {due}")
        if following is None and not gaps:
            raise CorruptLog(self._path, batch.position, f"offset {header.base_offset} instead of {due} at the end")
        return header.base_offset

    def _right_epoch(self, batch: ScannedBatch, header: BatchHeader, known: int) -> int:
        epoch, before = header.partition_leader_epoch, self._epoch
        following = self._following(batch, header)
        behind = following.epoch if following is not None and following.next_offset >= 0 else NO_EPOCH
        if epoch < before or (behind != NO_EPOCH and epoch > behind):  # certainly wrong
            if before == behind != NO_EPOCH:
                return before
            if before <= known != NO_EPOCH and (known <= behind or behind == NO_EPOCH):
                return known
        elif known == NO_EPOCH or (epoch in (before, behind) and epoch > self._latest):
            return epoch  # epochs that begin after the file was synced are in their batches only
        elif not self._confirmed or not self._agrees(following):
            return epoch  # several batches contradict the file
        raise CorruptLog(
            self._path, batch.position, f"leader epoch {epoch} is in no other batch, nor in the leader epoch file"
        )

    def _agrees(self, following: Following | None) -> bool:
        """Whether the next batch has the epoch of the file, or there is no next batch."""
        if following is None or following.next_offset < 0:
            return True
        return following.epoch == self._from_file.epoch_for_offset(following.base_offset)

    def _following(self, batch: ScannedBatch, header: BatchHeader) -> Following | None:
        """The next batch; at the segment's end the next segment; None if its header cannot be parsed or there is
        none."""
        position = batch.position + header.size
        if position >= self._end:
            return None if self._limit == INT64_MAX else Following(self._limit, NO_EPOCH, -1)
        raw = self._files.pread(self._file.descriptor(), HEADER_SIZE, position)
        try:
            following = parse_header(raw)
        except (CodecError, ValueError):
            return None
        if following.last_offset_delta < 0 or position + following.size > self._end:
            return None
        return Following(following.base_offset, following.partition_leader_epoch, following.next_offset)
