"""Mutants of the reader of segment files, which `campaigns.segment_files` must notice."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Campaign, Mutant
from campaigns.segment_files.campaign import run_rounds
from kwire.arrow.files import segments
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.ranges import Partition
from kwire.log.common import names
from kwire.log.segment.batch_scan import CorruptLog, scan


def _above_the_high_watermark() -> Any:
    def end_of_the_file(self: DataDirectory, partition: Partition) -> int:
        base = self.segments(partition)[-1]
        path = f"{self.folder(partition)}/{names.file_name(base, names.LOG_SUFFIX)}"
        fd, end = self.files.open(path, 0), base
        try:
            for each in scan(self.files, fd, path, 0, self.files.size(fd), check_crc=False):
                end = each.header.next_offset
        except CorruptLog:
            pass
        finally:
            self.files.close(fd)
        return end

    return patch.object(DataDirectory, "high_watermark", end_of_the_file)


def _open_transactions() -> Any:
    return patch.object(DataDirectory, "_stable", lambda _self, _partition, _segments, end: end)


def _aborted_transactions() -> Any:
    return patch.object(segments, "_aborted", lambda *_: {})


def _deleted_segments() -> Any:
    original = segments._open

    def go_on(directory: DataDirectory, partition: Partition, position: int, *, fails_on_loss: bool) -> Any:
        return original(directory, partition, position, fails_on_loss=False)

    return patch.object(segments, "_open", go_on)


def _only(*disturbances: str) -> Campaign:
    """The campaign with some disturbances only: a mutant need not wait for them."""
    return partial(run_rounds, disturbances=disturbances)


MUTANTS = {
    "records-above-the-high-watermark": Mutant(
        "nothing above the high watermark is shown", _above_the_high_watermark, _only("lag", "truncation"), 20
    ),
    "open-transactions-shown": Mutant(
        "read_committed shows nothing of an open transaction", _open_transactions, _only("nothing"), 20
    ),
    "aborted-transactions-shown": Mutant(
        "read_committed shows nothing of an aborted transaction", _aborted_transactions, _only("nothing"), 20
    ),
    "deleted-segments-unnoticed": Mutant(
        "a segment that is gone is an error", _deleted_segments, _only("retention"), 20
    ),
}
