"""Making a log survive a power loss: which files to sync, off the loop, and how far that has come.

A sealed segment is synced as soon as it is sealed; then the recovery point moves to its end, so that recovery after a
crash looks at the active segment only. `flush.messages` and `flush.ms` sync the active segment too.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kwire.base import futures
from kwire.base.doors import Files
from kwire.log.common.checkpoints import PARTITION_METADATA_FILE
from kwire.log.common.environment import LogEnvironment, StorageError, SyncFailed, loop_runs

if TYPE_CHECKING:
    from kwire.log.partition.partition_log import PartitionLog
    from kwire.log.segment.segment import Segment


SYNCED_AT_ONCE: Final = 64
"""Segments whose files are held open for one call: far below the descriptor budget."""


class Flusher:
    """The recovery point of one log: everything below it is on stable storage."""

    def __init__(
        self, env: LogEnvironment, log: PartitionLog, recovery_point: int, completed: Sequence[Segment] = ()
    ) -> None:
        self._env = env
        self._log = log
        self.recovery_point = recovery_point
        self.kept_point = 0  # what the checkpoint on stable storage is known to say
        self.last_flush_ms = env.doors.clock.time_ms()
        self._under_way: asyncio.Future[None] | None = None
        self._target = recovery_point
        self._reach = recovery_point  # what the sync under way can vouch for
        self._sealed: dict[Segment, None] = dict.fromkeys(completed)  # their indexes were completed and are not synced
        self._is_named = False  # whether the directory's own name, and whose it is, are on stable storage

    def sealed(self, segment: Segment, end_offset: int) -> None:
        """A segment was completed: sync it in the background. Without a running loop `close` will."""
        self._sealed[segment] = None
        if loop_runs():
            self._start(end_offset)

    def flush(self) -> asyncio.Future[None] | None:
        """Sync what was appended so far. A future (failing with StorageError), or None if nothing is unsynced."""
        end_offset = self._log.log_end_offset
        if end_offset <= self.recovery_point:
            return None
        return self._start(end_offset)

    async def flush_to(self, end_offset: int) -> None:
        """Everything below an offset on stable storage. KafkaError(KAFKA_STORAGE_ERROR)."""
        if self.recovery_point < end_offset:
            await self._start(end_offset)

    def _start(self, end_offset: int) -> asyncio.Future[None]:
        """One sync at a time: a later one that reaches further begins when the one before is done."""
        before = self._under_way
        if before is not None and not before.done():
            if end_offset <= self._target:
                return before
            started = asyncio.ensure_future(self._after(before, end_offset))
        else:
            started = asyncio.ensure_future(self._sync(end_offset))
        self._under_way, self._target = started, end_offset
        # A failure was reported by `on_failure`; whoever waits gets it as well, and nobody need wait.
        started.add_done_callback(futures.heed)
        return started

    async def _after(self, before: asyncio.Future[None], end_offset: int) -> None:
        await asyncio.wait([before])
        await self._sync(end_offset)

    def cut(self, offset: int) -> None:
        """The log ends there now. A sync that is under way says nothing of what comes in the place of what went."""
        self.recovery_point = min(self.recovery_point, offset)
        self._target = min(self._target, offset)
        self._reach = min(self._reach, offset)

    async def _sync(self, end_offset: int) -> None:
        self._reach = end_offset
        segments = self._unsynced(end_offset)
        try:
            await self._sync_segments(segments)
            if not segments:  # what is beside them: epochs, names
                await self._env.doors.executor.run(sync_files, self._env.doors.files, *self._prepare([]))
        except OSError as error:
            self._env.on_failure(self._log.directory, error)
            raise StorageError(self._log.directory, error) from error
        self._advance(min(end_offset, self._reach), segments)

    async def _sync_segments(self, segments: list[Segment]) -> None:
        """Sync segments and what lies beside them, off the loop, so many at a time that descriptors suffice.
        OSError."""
        for part in _parts(segments):
            with _kept_open(part):
                await self._env.doors.executor.run(sync_files, self._env.doors.files, *self._prepare(part))

    async def finish(self) -> None:
        """Sync everything, indexes too, of a log to which nothing is appended any more, so that its `close` has nothing
        left to wait for. OSError."""
        if self._under_way is not None and not self._under_way.done():
            await asyncio.wait([self._under_way])
        end_offset = self._log.log_end_offset
        segments = self._complete_all(end_offset)
        await self._sync_segments(segments)
        self._advance(end_offset, segments)
        for segment in segments:
            segment.indexes_unsynced = False

    def flush_blocking(self) -> None:
        """Sync everything here and now. OSError."""
        end_offset = self._log.log_end_offset
        segments = self._complete_all(end_offset)
        for part in _parts(segments):
            with _kept_open(part):
                sync_files(self._env.doors.files, *self._prepare(part))
        self._advance(end_offset, segments)

    def _complete_all(self, end_offset: int) -> list[Segment]:
        """Bring all indexes to their files; the segments that are to be synced then."""
        for segment in self._log.segments:
            if segment.index.loaded or segment.time_index.loaded:
                segment.note_max_timestamp()
                segment.flush_indexes()
            if segment.indexes_unsynced:
                self._sealed[segment] = None
        return self._unsynced(end_offset)

    def _advance(self, end_offset: int, synced: list[Segment]) -> None:
        for segment in synced:
            segment.indexes_unsynced = segment.indexes_unsynced and segment is self._log.active
            if segment is not self._log.active:
                self._sealed.pop(segment, None)
        # The log may have been truncated meanwhile: what is not there is not synced.
        self.recovery_point = max(self.recovery_point, min(end_offset, self._log.log_end_offset))
        self._is_named = True
        self.last_flush_ms = self._env.doors.clock.time_ms()

    def _unsynced(self, end_offset: int) -> list[Segment]:
        """Segments with offsets between the recovery point and an end, and those below it that were completed since;
        empty ones as well: what their indexes had before must not be back after a power loss. Not those beyond the
        end: their turn is when the names of the ones before them are safe, or a power loss may leave a hole."""
        segments = self._log.segments
        ends = [segment.base_offset for segment in segments[1:]] + [self._log.log_end_offset]
        return [
            segment
            for segment, end in zip(segments, ends, strict=True)
            if (segment.base_offset < end_offset and (end > self.recovery_point or segment in self._sealed))
            or (not segment.size and segment in self._sealed)
        ]

    def _prepare(self, segments: list[Segment]) -> tuple[list[int], list[str]]:
        """What to sync: descriptors of `.log` files, and paths of everything beside them."""
        log = self._log
        if log.epochs.dirty:
            log.epochs.write()
        paths = []
        for segment in segments:
            segment.flush_indexes()
            paths += [path for path in segment.paths() if path != segment.file.path]
            paths.append(log.producer_state.snapshot_path(segment.base_offset))
            if segment is not log.active:  # what of a producer is compacted away, the snapshot behind it tells
                following = log.segments[log.segments.index(segment) + 1]
                paths.append(log.producer_state.snapshot_path(following.base_offset))
        paths.append(log.epochs.path)
        if not self._is_named:
            paths.append(f"{log.directory}/{PARTITION_METADATA_FILE}")
        existing = [path for path in paths if self._env.doors.files.exists(path)]
        existing.append(log.directory)
        if not self._is_named:
            existing.append(os.path.dirname(log.directory))
        return [segment.file.descriptor() for segment in segments], existing


def _parts(segments: list[Segment]) -> Iterator[list[Segment]]:
    for start in range(0, len(segments), SYNCED_AT_ONCE):
        yield segments[start : start + SYNCED_AT_ONCE]


@contextmanager
def _kept_open(segments: list[Segment]) -> Iterator[None]:
    """Whoever opens other files meanwhile must not have these closed: their numbers are about to be synced."""
    for segment in segments:
        segment.file.retain()
    try:
        yield
    finally:
        for segment in segments:
            segment.file.release()


def sync_files(files: Files, descriptors: list[int], paths: list[str]) -> None:
    """Sync open files, then files and directories by name; one that is gone meanwhile needs no sync. Runs on a
    thread. OSError; SyncFailed if it was the sync that failed."""
    for fd in descriptors:
        _sync(files, fd)
    for path in paths:
        try:
            fd = files.open(path, 0)
        except FileNotFoundError:
            continue
        try:
            _sync(files, fd)
        finally:
            files.close(fd)


def _sync(files: Files, fd: int) -> None:
    try:
        files.fsync(fd)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror or str(error)) from error
