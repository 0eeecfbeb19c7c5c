"""Verifying a whole data directory offline: does it hold what a broker would have written?

It reads every file and changes none. Whatever is wrong becomes a `Finding` with file and position. The rules are those
of recovery: batches are valid and match their checksums, offsets rise, index entries point at batches with their
offsets, producer snapshots and leader epochs fit the log, checkpoints lie within their logs. Repairing is `recovery`'s,
the command is `kwire.cli.verify_log`.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kwire.base.doors import Files
from kwire.codec.errors import CodecError
from kwire.codec.records import iter_records
from kwire.log.common import checkpoints, names
from kwire.log.common.checkpoints import CorruptCheckpoint
from kwire.log.common.log_dirs import LogDirectoryError, read_meta_properties
from kwire.log.segment.batch_scan import CorruptLog, scan
from kwire.log.segment.indexes import CorruptIndex, OffsetIndex, TimeIndex, TransactionIndex
from kwire.log.state.producer_snapshot import CorruptSnapshot, decode_snapshot

OFFSET_CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
MAX_DECOMPRESSED_BYTES: Final = 1 << 30


class Finding(NamedTuple):
    """One problem found."""

    path: str
    problem: str


class Totals(NamedTuple):
    """How much was verified."""

    partitions: int
    segments: int
    batches: int
    records: int
    bytes: int


Progress = Callable[[int, int, int], None]
"""(partitions done, partitions in all, bytes read so far)."""


class DirectoryVerifier:
    """One run over one directory of `log.dirs`: call `run`, then read ``findings`` and ``totals``.

    With ``deep``, every batch is decompressed and its records are walked. Damage never raises; OSError does.
    """

    def __init__(self, directory: str, *, deep: bool = False, files: Files | None = None) -> None:
        self.directory = directory
        self.findings: list[Finding] = []
        self._deep = deep
        self._files = files or Files()
        self._ends: dict[tuple[str, int], tuple[int, int]] = {}  # log start and end by partition
        self._segments = self._batches = self._records = self._bytes = 0

    @property
    def totals(self) -> Totals:
        """How much was verified so far."""
        return Totals(len(self._ends), self._segments, self._batches, self._records, self._bytes)

    def run(self, progress: Progress | None = None) -> list[Finding]:
        """Verify everything; the findings."""
        self._verify_meta()
        partitions = [
            (name, parsed)
            for name in self._files.listdir(self.directory)
            if self._files.is_dir(f"{self.directory}/{name}") and (parsed := names.parse_directory_name(name))
        ]
        for done, (name, parsed) in enumerate(partitions):
            if progress is not None:
                progress(done, len(partitions), self._bytes)
            self._verify_partition(f"{self.directory}/{name}", parsed)
        if progress is not None:
            progress(len(partitions), len(partitions), self._bytes)
        self._verify_checkpoints()
        return self.findings

    def _found(self, path: str, problem: object) -> None:
        text = str(problem)
        self.findings.append(Finding(path, text.removeprefix(f"{path}: ").removeprefix(f"{path} ")))

    def _verify_meta(self) -> None:
        try:
            if read_meta_properties(self._files, self.directory) is None:
                self._found(f"{self.directory}/meta.properties", "missing: no broker has started here yet")
        except LogDirectoryError as error:
            self._found(f"{self.directory}/meta.properties", error)

    # -- one partition -------------------------------------------------------------------------------------------------

    def _verify_partition(self, path: str, partition: tuple[str, int]) -> None:
        try:
            if checkpoints.read_topic_id(self._files, path) is None:
                self._found(f"{path}/partition.metadata", "missing: the topic id is unknown")
        except CorruptCheckpoint as error:
            self._found(f"{path}/partition.metadata", error)
        files = [(name, names.parse_file_name(name)) for name in self._files.listdir(path)]
        segments = sorted(parsed[0] for _, parsed in files if parsed and parsed[1] == names.LOG_SUFFIX)
        if not segments:
            self._found(path, "no segment")
            return
        next_offset = segments[0]
        for number, base_offset in enumerate(segments):
            last = number == len(segments) - 1
            next_offset = self._verify_segment(path, base_offset, max(next_offset, base_offset), last)
        for name, parsed in files:
            if parsed and parsed[1] in names.SEGMENT_SUFFIXES and parsed[0] not in segments:
                self._found(f"{path}/{name}", "an index without a segment")
        self._verify_snapshots(path, [p[0] for _, p in files if p and p[1] == names.SNAPSHOT_SUFFIX], next_offset)
        self._verify_epochs(path, next_offset)
        self._ends[partition] = (segments[0], next_offset)

    def _verify_segment(self, directory: str, base_offset: int, expected: int, last: bool) -> int:
        """Batches, then the indexes against them. Returns the offset after the segment."""
        path = f"{directory}/{names.file_name(base_offset, names.LOG_SUFFIX)}"
        fd = self._files.open(path, os.O_RDONLY)
        positions: list[int] = []
        offsets: list[tuple[int, int]] = []
        try:
            size = self._files.size(fd)
            for batch in scan(self._files, fd, path, 0, size, check_crc=True):
                header = batch.header
                if header.base_offset < expected:
                    self._found(path, f"position {batch.position}: offset {header.base_offset} instead of {expected}")
                expected = max(expected, header.next_offset)
                positions.append(batch.position)
                offsets.append((header.base_offset, header.last_offset))
                self._count(path, batch.position, batch.data, header.count)
        except CorruptLog as error:
            self._found(path, error)
        finally:
            self._files.close(fd)
        self._segments += 1
        self._verify_indexes(directory, base_offset, positions, offsets, last)
        return expected

    def _count(self, path: str, position: int, data: memoryview, count: int) -> None:
        self._batches += 1
        self._records += count
        self._bytes += len(data)
        if not self._deep:
            return
        try:
            for _ in iter_records(data, max_bytes=MAX_DECOMPRESSED_BYTES):
                pass
        except CodecError as error:
            self._found(path, f"position {position}: {error}")

    def _verify_indexes(
        self, directory: str, base_offset: int, positions: list[int], offsets: list[tuple[int, int]], last: bool
    ) -> None:
        def path(suffix: str) -> str:
            return f"{directory}/{names.file_name(base_offset, suffix)}"

        offset_index = OffsetIndex(self._files, path(names.INDEX_SUFFIX), new=False)
        time_index = TimeIndex(self._files, path(names.TIME_INDEX_SUFFIX), new=False)
        for index in (offset_index, time_index):
            if not self._files.exists(index.path) and positions and not last:
                self._found(index.path, "missing; the next start rebuilds it")
        previous = -1
        for relative, position in self._entries(offset_index, last):
            at = bisect_right(positions, position) - 1
            if relative <= previous or at < 0 or positions[at] != position:
                self._found(
                    offset_index.path, f"entry ({base_offset + relative}, {position}) does not point at a batch"
                )
                break
            first, final = offsets[at]
            if not first <= base_offset + relative <= final:
                self._found(offset_index.path, f"entry {base_offset + relative} points at offsets {first} to {final}")
                break
            previous = relative
        self._verify_time_index(time_index, base_offset, offsets, last)
        self._verify_transactions(path(names.TXN_INDEX_SUFFIX), base_offset)

    def _entries(self, index: OffsetIndex | TimeIndex, last: bool) -> Iterator[tuple[int, int]]:
        """The entries of an index; the space that a running broker has reserved at the end of the last one is
        skipped."""
        size = self._files.stat(index.path).st_size if self._files.exists(index.path) else 0
        if size % index.entry.size:
            self._found(index.path, f"{size} bytes are not a whole number of entries")
        for number, entry in enumerate(index.entries()):
            if last and number and not any(entry):
                return
            yield entry

    def _verify_time_index(
        self, index: TimeIndex, base_offset: int, offsets: list[tuple[int, int]], last: bool
    ) -> None:
        previous = (-(2**63), -1)
        end = offsets[-1][1] if offsets else base_offset
        for timestamp, relative in self._entries(index, last):
            if timestamp < previous[0] or relative < previous[1] or base_offset + relative > end:
                self._found(index.path, f"entry ({timestamp}, {base_offset + relative}) is out of order or range")
                return
            previous = (timestamp, relative)

    def _verify_transactions(self, path: str, base_offset: int) -> None:
        if not self._files.exists(path):
            return
        index = TransactionIndex(self._files, path, new=False)
        try:
            for _ in index.entries():
                pass
            index.check(base_offset)
        except CorruptIndex as error:
            self._found(path, error)

    def _verify_snapshots(self, directory: str, offsets: list[int], end: int) -> None:
        for offset in offsets:
            path = f"{directory}/{names.file_name(offset, names.SNAPSHOT_SUFFIX)}"
            if offset > end:
                self._found(path, f"beyond the end of the log, {end}")
            try:
                decode_snapshot(self._files.read(path))
            except CorruptSnapshot as error:
                self._found(path, error)

    def _verify_epochs(self, directory: str, end: int) -> None:
        path = f"{directory}/leader-epoch-checkpoint"
        try:
            entries = [(int(epoch), int(start)) for epoch, start in checkpoints.read_lines(self._files, path) or ()]
        except (CorruptCheckpoint, ValueError) as error:
            self._found(path, error)
            return
        for before, after in pairwise(entries):
            if after[0] <= before[0] or after[1] <= before[1]:
                self._found(path, f"epoch {after[0]} from {after[1]} follows epoch {before[0]} from {before[1]}")
        if entries and entries[-1][1] > end:
            self._found(path, f"epoch {entries[-1][0]} begins at {entries[-1][1]}, beyond the log's end {end}")

    # -- checkpoints of the directory ----------------------------------------------------------------------------------

    def _verify_checkpoints(self) -> None:
        for name in OFFSET_CHECKPOINTS:
            path = f"{self.directory}/{name}"
            try:
                offsets = checkpoints.read_offsets(self._files, path)
            except CorruptCheckpoint as error:
                self._found(path, error)
                continue
            for (topic, partition), offset in offsets.items():
                bounds = self._ends.get((topic, partition))
                if bounds is not None and not 0 <= offset <= bounds[1]:
                    self._found(path, f"{topic}-{partition} at {offset}, but the log ends at {bounds[1]}")
