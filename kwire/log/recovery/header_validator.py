"""Base offset and leader epoch of a batch: the two fields outside its checksum, held against what surrounds them.

Recovery asks here about every batch whose checksum is right and whose place is not what was due. Other sources of the
truth: the batch before and the one behind it, the base offset of the next segment, and the leader epoch file as it was
found (`PartitionLog` writes it before the first batch of an epoch, so after a kill it knows the epoch of every batch;
after a power loss it may lack the last ones, of which nothing was promised).

What the others agree about is written back into the file and told. What nobody can confirm is damage (`CorruptLog`):
so is a leader epoch that could be, of which the file says otherwise and no other batch tells. After a kill that is a
flipped bit; after a power loss it may be the truth beside an old file, but then it was never synced.
Pure but for looking at the next header; where a log ends for damage is decided in `recovery`.
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
    """What comes behind a batch. ``next_offset`` is -1 where only a segment's name is known."""

    base_offset: int
    epoch: int
    next_offset: int


class HeaderJudge:
    """Judges the batches of one segment in their order. ``limit``: the next segment's base offset, INT64_MAX for
    the last one; ``epoch``: of the batch before; ``noted``: the leader epochs as their file has them."""

    def __init__(
        self, files: Files, file: LogFile, base_offset: int, end: int, limit: int, epoch: int, noted: LeaderEpochCache
    ) -> None:
        self._files = files
        self._file = file
        self._path = file.path
        self._base_offset = base_offset
        self._end = end
        self._limit = limit
        self._noted = noted
        self._latest = noted.latest_epoch
        self._epoch = epoch
        self._confirmed = epoch == noted.epoch_for_offset(base_offset - 1)  # whether the last batch and the file agree
        self.complaints: list[str] = []

    def judge(self, batch: ScannedBatch, due: int, *, gaps: bool) -> BatchHeader:
        """The header as it should be. ``due``: the offset behind the last batch; ``gaps``: batches may be missing at
        the end of the log. CorruptLog."""
        header = batch.header
        if header.base_offset != due:
            offset = self._right_offset(batch, due, gaps)
            if offset != header.base_offset:
                self._put_right(batch.position, 0, offset.to_bytes(8, "big"), f"offset {header.base_offset}", offset)
                header = header._replace(base_offset=offset)
        if header.last_offset - self._base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptLog(self._path, batch.position, f"offsets up to {header.last_offset} cannot be")
        known = self._noted.epoch_for_offset(header.base_offset)
        epoch = header.partition_leader_epoch
        if epoch != known:
            right = self._right_epoch(batch, header, known)
            if right != epoch:
                what = f"leader epoch {epoch} of offset {header.base_offset}"
                self._put_right(batch.position, 12, right.to_bytes(4, "big", signed=True), what, right)
                header = header._replace(partition_leader_epoch=right)
        self._confirmed = header.partition_leader_epoch == known
        self._epoch = header.partition_leader_epoch
        return header

    def _put_right(self, position: int, at: int, data: bytes, what: str, right: int) -> None:
        self._files.pwrite(self._file.descriptor(), data, position + at)
        self.complaints.append(f"{self._path} at position {position}: {what} cannot be, it is {right} again")

    def _right_offset(self, batch: ScannedBatch, due: int, gaps: bool) -> int:
        header = batch.header
        following = self._following(batch, header)
        if following is not None and following.base_offset == due + header.last_offset_delta + 1:
            return due  # it fits exactly between its neighbours there, and nowhere else
        if header.base_offset < due:
            raise CorruptLog(self._path, batch.position, "its offsets were there before")
        if following is not None and following.base_offset < header.next_offset:
            raise CorruptLog(self._path, batch.position, f"offset {header.base_offset}, {due} was due")
        if following is None and not gaps:
            raise CorruptLog(self._path, batch.position, f"offset {header.base_offset}, {due} was due at the end")
        return header.base_offset

    def _right_epoch(self, batch: ScannedBatch, header: BatchHeader, known: int) -> int:
        epoch, before = header.partition_leader_epoch, self._epoch
        following = self._following(batch, header)
        behind = following.epoch if following is not None and following.next_offset >= 0 else NO_EPOCH
        if epoch < before or (behind != NO_EPOCH and epoch > behind):  # wrong beyond doubt
            if before == behind != NO_EPOCH:
                return before
            if before <= known != NO_EPOCH and (known <= behind or behind == NO_EPOCH):
                return known
        elif known == NO_EPOCH or (epoch in (before, behind) and epoch > self._latest):
            return epoch  # of epochs that begin after the file was synced, nothing but their batches tells
        elif not self._confirmed or not self._agrees(following):
            return epoch  # several batches against the file
        raise CorruptLog(self._path, batch.position, f"nothing but this batch tells of leader epoch {epoch} here")

    def _agrees(self, following: Following | None) -> bool:
        """Whether the epoch file and the next batch say the same; so it is where none is known."""
        if following is None or following.next_offset < 0:
            return True
        return following.epoch == self._noted.epoch_for_offset(following.base_offset)

    def _following(self, batch: ScannedBatch, header: BatchHeader) -> Following | None:
        """The next batch if its header reads, at the segment's end the next segment's name; None if neither."""
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
