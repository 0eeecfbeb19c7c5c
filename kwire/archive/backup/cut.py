"""Which bytes of a data directory are in a backup: all partitions as of one moment, though a broker goes on writing.

That moment is the broker's last checkpoint of high watermarks, which it writes in one piece. What lies before them is
committed and does not change, with three exceptions. Retention deletes the oldest segments: then the cut is made anew.
Compaction replaces segments, and may do so in favour of records that come after the cut: it is made anew if a segment
is not the one that was listed, and the list is not taken before the checkpoint has reached what may be compacted. A log
that is made anew has another topic id.

So a group's committed offset lies within its partitions, and a transaction is as far as its coordinator says. A backup
of closed segments only is not of one moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from kwire.archive.backup.manifest import Stamp
from kwire.archive.backup.metadata import Topic
from kwire.archive.errors import ArchiveError
from kwire.arrow.errors import ReadError
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.ranges import Partition
from kwire.base.uuids import uuid_to_text
from kwire.log.common import checkpoints, names
from kwire.log.common.checkpoints import CorruptCheckpoint
from kwire.log.segment.batch_scan import CorruptLog, find_batch

_TRIES: Final = 200
_PAUSE_S: Final = 0.1
Listed = dict[int, Stamp]
"""The segments of a partition by their base offsets."""


class Changed(Exception):
    """The directory is not what it was when the cut was made; the text says where."""


class Part(NamedTuple):
    """The beginning of a file: its first ``size`` bytes, all of it unless it is written to."""

    name: str
    size: int
    stamp: Stamp


class CutPartition(NamedTuple):
    """What is copied of a partition. ``listed``: its segments, which must still be there when they were copied."""

    key: Partition
    topic_id: str
    start: int
    end: int
    recovery_point: int
    cleaned: int
    epochs: tuple[tuple[int, int], ...]
    parts: tuple[Part, ...]
    listed: Listed


class Offsets(NamedTuple):
    """The checkpoints of a directory."""

    high: Mapping[Partition, int]
    first: Mapping[Partition, int]
    recovery: Mapping[Partition, int]
    cleaned: Mapping[Partition, int]


class Cutter:
    """Makes cuts of one directory. `ArchiveError` for what cannot be read."""

    def __init__(self, path: str, *, closed_only: bool) -> None:
        self._directory = DataDirectory(path)
        self._closed_only = closed_only

    def cut(self, topics: Mapping[str, Topic]) -> list[CutPartition]:
        """A cut of these topics. `Changed` if one of them has gone or was made again meanwhile."""
        wanted = {(name, number): topic for name, topic in topics.items() for number in range(topic.partitions)}
        try:
            listed, offsets = self._settled(wanted)
            return [self._partition(key, topic, listed[key], offsets) for key, topic in wanted.items()]
        except (CorruptCheckpoint, CorruptLog) as error:
            raise ArchiveError(str(error)) from None
        except FileNotFoundError as error:
            raise Changed(f"{error.filename} has gone") from None
        except OSError as error:
            raise ArchiveError(f"{error.filename}: {error.strerror}") from None

    def check(self, partition: CutPartition) -> None:
        """`Changed` unless the segments of a cut are there as they were, but for what was appended."""
        try:
            found = self._list(partition.key)
        except OSError as error:
            raise Changed(f"{error.filename} has gone") from None
        if not _goes_on(partition.listed, found):
            raise Changed(f"the segments of {names.directory_name(*partition.key)}")

    def open(self, key: Partition, part: Part) -> int:
        """A descriptor of a part's file. `Changed` if it is another one by now."""
        path = f"{self._directory.folder(key)}/{part.name}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Changed(f"{path} has gone") from None
        except OSError as error:
            raise ArchiveError(f"{path}: {error.strerror}") from None
        found = os.fstat(descriptor)
        if found.st_ino != part.stamp[0] or found.st_size < part.size:
            os.close(descriptor)
            raise Changed(f"{path} was replaced")
        return descriptor

    def _settled(self, wanted: Mapping[Partition, Topic]) -> tuple[dict[Partition, Listed], Offsets]:
        """Segments and checkpoints that belong together."""
        behind = ""
        for _ in range(_TRIES):
            before = {key: self._list(key) for key in wanted}
            offsets = self._offsets()
            after = {key: self._list(key) for key in wanted}
            behind = next((names.directory_name(*key) for key in wanted if not _goes_on(before[key], after[key])), "")
            behind = behind or self._behind(wanted, after, offsets)
            if not behind:
                return after, offsets
            time.sleep(_PAUSE_S)
        raise ArchiveError(
            f"{self._directory.path}: the checkpoint of high watermarks does not reach the last segment of {behind}:"
            " start a broker on it, and stop it"
        )

    def _behind(self, wanted: Mapping[Partition, Topic], listed: Mapping[Partition, Listed], offsets: Offsets) -> str:
        """A partition that may have been compacted further than the high watermark that is known of it."""
        for key, topic in wanted.items():
            if "compact" not in topic.cleanup_policy and key not in offsets.cleaned:
                continue
            known = max(offsets.high.get(key, 0), offsets.first.get(key, 0), min(listed[key], default=0))
            if max(listed[key], default=0) > known:
                return names.directory_name(*key)
        return ""

    def _offsets(self) -> Offsets:
        files, path = self._directory.files, self._directory.path
        return Offsets(
            *(
                checkpoints.read_offsets(files, f"{path}/{file}")
                for file in (
                    checkpoints.HIGH_WATERMARK_FILE,
                    checkpoints.LOG_START_OFFSET_FILE,
                    checkpoints.RECOVERY_POINT_FILE,
                    checkpoints.CLEANER_FILE,
                )
            )
        )

    def _list(self, key: Partition) -> Listed:
        folder = self._directory.folder(key)
        try:
            bases = self._directory.segments(key)
        except ReadError as error:
            raise ArchiveError(str(error)) from None
        return {base: _stamp(f"{folder}/{names.file_name(base, names.LOG_SUFFIX)}") for base in bases}

    def _partition(self, key: Partition, topic: Topic, listed: Listed, offsets: Offsets) -> CutPartition:
        files, folder = self._directory.files, self._directory.folder(key)
        topic_id = checkpoints.read_topic_id(files, folder)
        if topic_id is None or uuid_to_text(topic_id) != topic.id:
            raise Changed(f"{folder} was made again")
        bases = sorted(listed)
        start = max([offsets.first.get(key, 0), *bases[:1]])
        end = max(start, offsets.high.get(key, 0))
        if self._closed_only:
            end = max([start, *(each for each in bases if each <= end)])
        parts = list(self._logs(folder, listed, end))
        last = names.parse_file_name(parts[-1].name)
        recovery_point = min(offsets.recovery.get(key, 0), end if last is None else last[0])
        parts += self._beside(folder, sorted(listed), end, recovery_point)
        lines = checkpoints.read_lines(files, f"{folder}/{checkpoints.LEADER_EPOCH_FILE}") or []
        epochs = [(int(epoch), int(offset)) for epoch, offset in lines]
        return CutPartition(
            key,
            topic.id,
            start,
            end,
            recovery_point,
            min(offsets.cleaned.get(key, -1), end),
            _between(epochs, start, end),
            tuple(parts),
            listed,
        )

    def _logs(self, folder: str, listed: Listed, end: int) -> Iterator[Part]:
        """The segments before the end. If the end is that of a segment, an empty one follows: what compaction has left
        of the one before may end earlier."""
        bases = sorted(listed)
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            if base >= end:
                break
            name = names.file_name(base, names.LOG_SUFFIX)
            if following is None or following > end:
                yield Part(name, self._size_before(f"{folder}/{name}", end), listed[base])
                return
            yield Part(name, listed[base][1], listed[base])
        yield Part(names.file_name(end, names.LOG_SUFFIX), 0, (0, 0, 0, 0))

    def _beside(self, folder: str, bases: list[int], end: int, recovery_point: int) -> Iterator[Part]:
        """Indexes of segments before the recovery point (later ones may not be complete), and producer snapshots."""
        for base, following in pairwise(bases):
            if following <= recovery_point:
                for suffix in (names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX, names.TXN_INDEX_SUFFIX):
                    yield from _whole(folder, names.file_name(base, suffix))
        for name in self._directory.files.listdir(folder):
            parsed = names.parse_file_name(name)
            if parsed is not None and parsed[1] == names.SNAPSHOT_SUFFIX and parsed[0] <= end:
                yield from _whole(folder, name)

    def _size_before(self, path: str, end: int) -> int:
        """The bytes of a segment's batches before an offset, which is that of a batch."""
        files = self._directory.files
        fd = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = files.size(fd)
            # Whatever comes behind may be in the middle of being written.
            found = find_batch(files, fd, path, end - 1, 0, size)
            if found is None:
                return size
            return found.position if found.last_offset >= end else found.position + found.size
        finally:
            files.close(fd)


def _between(epochs: list[tuple[int, int]], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The leader epochs of the offsets from ``start`` to before ``end``."""
    found: list[tuple[int, int]] = []
    for epoch, offset in epochs:
        if offset <= start:
            found = [(epoch, start)]
        else:
            found.append((epoch, offset))
    return tuple(each for each in found if each[1] < end)


def _whole(folder: str, name: str) -> Iterator[Part]:
    try:
        stamp = _stamp(f"{folder}/{name}")
    except FileNotFoundError:
        return
    yield Part(name, stamp[1], stamp)


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _goes_on(before: Listed, after: Listed) -> bool:
    """Whether all segments are the same files, and others come after them only."""
    return all(base in after and after[base][0] == stamp[0] for base, stamp in before.items()) and all(
        base in before or base > max(before, default=-1) for base in after
    )
