"""What a data directory holds: its partitions, and which of their offsets may be read."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from kwire.arrow.errors import ReadError
from kwire.arrow.ranges import Partition
from kwire.base.doors import Files
from kwire.codec.errors import CodecError
from kwire.codec.records import ABORT, COMMIT, BatchHeader, iter_records, parse_control_key
from kwire.log.common import checkpoints, names
from kwire.log.common.checkpoints import CorruptCheckpoint
from kwire.log.segment.batch_scan import CorruptLog, scan
from kwire.log.state.producer_snapshot import CorruptSnapshot, decode_snapshot

_LOOKS: Final = 200
_PAUSE_S: Final = 0.01
_CONTROL_BYTES_MAX: Final = 4096


class Identity(NamedTuple):
    """A topic id, and the leader epochs of a log up to an offset, each with the offset where it starts. It changes when
    the topic is made again or the log was truncated below that offset."""

    topic_id: bytes
    epochs: tuple[tuple[int, int], ...]

    def may_become(self, later: Identity) -> bool:
        """Whether it is the same log. Retention removes the first epochs, and moves the start of the one that is first
        then."""
        if self.topic_id != later.topic_id or not later.epochs:
            return self == later
        (first, start), *others = later.epochs
        own = [each for each in self.epochs if each[0] >= first]
        return bool(own) and own[0][0] == first and own[0][1] <= start and own[1:] == others


class Visible(NamedTuple):
    """Offsets of a partition that may be read, from ``start`` to before ``end``, and the identity of the log up to
    there."""

    start: int
    end: int
    identity: Identity


@contextmanager
def as_read_errors(partition: Partition) -> Iterator[None]:
    """`ReadError` for files of a partition that are damaged or gone."""
    try:
        yield
    except (CodecError, CorruptCheckpoint, CorruptLog, CorruptSnapshot) as error:
        raise ReadError(f"{names.directory_name(*partition)}: {error}") from None
    except FileNotFoundError as error:
        raise ReadError(f"{error.filename}: {error.strerror}: it was deleted meanwhile; read again") from None
    except OSError as error:
        raise ReadError(f"{error.filename or names.directory_name(*partition)}: {error.strerror}") from None


class DataDirectory:
    """One of a broker's ``log.dirs``, or a copy of it. `ReadError` for what is not one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files = Files()

    def partitions(self) -> list[Partition]:
        """All partitions, sorted."""
        try:
            found = [
                parsed
                for name in self.files.listdir(self.path)
                if (parsed := names.parse_directory_name(name)) and self.files.is_dir(f"{self.path}/{name}")
            ]
        except OSError as error:
            raise ReadError(f"{self.path}: {error.strerror}: give the folder of log.dirs") from None
        if not found and not self.files.exists(f"{self.path}/meta.properties"):
            raise ReadError(f"{self.path}: no data directory, it has no meta.properties")
        return sorted(found)

    def folder(self, partition: Partition) -> str:
        """The partition's directory."""
        return f"{self.path}/{names.directory_name(*partition)}"

    def visible(self, partition: Partition, *, committed: bool) -> Visible:
        """What may be read of a partition; ``committed``: of transactions only what is committed."""
        with as_read_errors(partition):
            return self._visible(partition, committed=committed)

    def segments(self, partition: Partition) -> list[int]:
        """The base offsets of a partition's segments. While the cleaner replaces some, it waits. `ReadError`."""
        folder = self.folder(partition)
        for _ in range(_LOOKS):
            with as_read_errors(partition):
                listed = self.files.listdir(folder)
                is_whole = listed == self.files.listdir(folder)
            if is_whole and not any(name.endswith(names.SWAP_SUFFIX) for name in listed):
                parsed = [names.parse_file_name(name) for name in listed]
                return sorted(each[0] for each in parsed if each and each[1] == names.LOG_SUFFIX)
            time.sleep(_PAUSE_S)
        raise ReadError(f"{folder}: a compaction has not ended; start a broker there, which ends it")

    def high_watermark(self, partition: Partition) -> int:
        """Before which offset records are committed, as far as the checkpoint says; 0 if it says nothing."""
        path = f"{self.path}/{checkpoints.HIGH_WATERMARK_FILE}"
        with as_read_errors(partition):
            return checkpoints.read_offsets(self.files, path).get(partition, 0)

    def identity(self, partition: Partition, end: int) -> Identity:
        """The topic id, and the leader epochs of the offsets before ``end``."""
        folder = self.folder(partition)
        path = f"{folder}/{checkpoints.LEADER_EPOCH_FILE}"
        with as_read_errors(partition):
            topic_id = checkpoints.read_topic_id(self.files, folder) or b""
            lines = checkpoints.read_lines(self.files, path) or []
        try:
            epochs = [(int(epoch), int(start)) for epoch, start in lines]
        except ValueError:
            raise ReadError(f"{path}: a line is not an epoch and an offset") from None
        return Identity(topic_id, tuple(each for each in epochs if each[1] < end))

    def _visible(self, partition: Partition, *, committed: bool) -> Visible:
        path = f"{self.path}/{checkpoints.LOG_START_OFFSET_FILE}"
        first = checkpoints.read_offsets(self.files, path).get(partition, 0)
        segments = self.segments(partition)
        if not segments:
            return Visible(first, first, self.identity(partition, first))
        start = max(first, segments[0])
        end = max(start, self.high_watermark(partition))
        if committed:
            end = max(start, self._stable(partition, segments, end))
        return Visible(start, end, self.identity(partition, end))

    def _stable(self, partition: Partition, segments: list[int], end: int) -> int:
        """The last stable offset, if ``end`` is the high watermark: the last producer snapshot, and what came since."""
        folder = self.folder(partition)
        snapshots = [
            parsed[0]
            for name in self.files.listdir(folder)
            if (parsed := names.parse_file_name(name)) and parsed[1] == names.SNAPSHOT_SUFFIX and parsed[0] <= end
        ]
        at, open_ones = segments[0], dict[int, int]()
        if snapshots:
            at = max(snapshots)
            data = self.files.read(f"{folder}/{names.file_name(at, names.SNAPSHOT_SUFFIX)}")
            for entry in decode_snapshot(data):
                if entry.current_txn_first_offset >= 0:
                    open_ones[entry.producer_id] = entry.current_txn_first_offset
        for base in segments[max(0, bisect_right(segments, at) - 1) :]:
            if base >= end:
                break
            for header, batch in self._batches(f"{folder}/{names.file_name(base, names.LOG_SUFFIX)}", end):
                if header.base_offset < at or not header.is_transactional:
                    continue
                if not header.is_control:
                    open_ones.setdefault(header.producer_id, header.base_offset)
                elif _ends_transaction(batch):
                    open_ones.pop(header.producer_id, None)
        return min([end, *open_ones.values()])

    def _batches(self, path: str, end: int) -> list[tuple[BatchHeader, bytes]]:
        """Headers of a segment's batches before an offset; control batches whole."""
        found = []
        fd = self.files.open(path, 0)
        try:
            for each in scan(self.files, fd, path, 0, self.files.size(fd), check_crc=False):
                if each.header.base_offset >= end:
                    break
                if each.header.is_transactional:
                    found.append((each.header, bytes(each.data) if each.header.is_control else b""))
                if each.header.next_offset >= end:
                    break  # what comes next may be half written
        finally:
            self.files.close(fd)
        return found


def _ends_transaction(batch: bytes) -> bool:
    return any(
        parse_control_key(each).type in (COMMIT, ABORT) for each in iter_records(batch, max_bytes=_CONTROL_BYTES_MAX)
    )
