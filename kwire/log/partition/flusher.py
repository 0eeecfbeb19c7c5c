"""Making a log survive a power loss: which files to sync, off the loop, and up to which offset that is done.

A sealed segment is synced as soon as it is sealed; then the recovery point moves to its end, so that recovery after a
crash reads the active segment only. `flush.messages` and `flush.ms` sync the active segment too.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kwire.base import futures
from kwire.log.common.checkpoints import PARTITION_METADATA_FILE
from kwire.log.common.environment import LogEnvironment, loop_runs
from kwire.log.common.sync_files import sync_files
from kwire.log.segment.segment import Segment
from kwire.log.state.log_view import LogView, PartOfLog

SYNCED_AT_ONCE: Final = 64
"""How many segments' files one call holds open: far below the descriptor budget."""


class Flusher(PartOfLog[LogView]):
    """The recovery point of one log: everything below it is on stable storage.

    ``completed`` are sealed segments whose indexes recovery has rebuilt and not synced.
    """

    def __init__(
        self, env: LogEnvironment, log: LogView, recovery_point: int, completed: Sequence[Segment] = ()
    ) -> None:
        super().__init__(log)
        self._env = env
        self.recovery_point = recovery_point
        self.checkpointed_point = 0  # the recovery point in the checkpoint on stable storage, as far as it is known
        self.last_flush_ms = env.doors.clock.time_ms()
        self._under_way: asyncio.Future[None] | None = None
        self._target = recovery_point  # up to where the newest sync goes
        self._valid_to = recovery_point  # up to where the sync under way may move the recovery point
        self._sealed: dict[Segment, None] = dict.fromkeys(completed)  # sealed, and not synced since
        self._is_named = False  # whether the directory's name and `partition.metadata` are on stable storage

    def sealed(self, segment: Segment, end_offset: int) -> None:
        """Sync a segment that was just sealed, in the background. Without a running loop `close` does it."""
        self._sealed[segment] = None
        if loop_runs():
            self._start(end_offset)

    def dropped(self, segment: Segment) -> None:
        """A segment is no part of the log any more. It is not synced, and must not be kept for that."""
        self._sealed.pop(segment, None)

    def flush(self) -> asyncio.Future[None] | None:
        """Sync everything appended so far. A future, which may fail with StorageError; None if nothing is unsynced."""
        end_offset = self._log.log_end_offset
        if end_offset <= self.recovery_point:
            return None
        return self._start(end_offset)

    async def flush_to(self, end_offset: int) -> None:
        """Return when everything below an offset is on stable storage. KafkaError(KAFKA_STORAGE_ERROR)."""
        if self.recovery_point < end_offset:
            await self._start(end_offset)

    def _start(self, end_offset: int) -> asyncio.Future[None]:
        """Syncs of a log run one after the other: one that reaches further begins when the one before is done."""
        before = self._under_way
        if before is not None and not before.done():
            if end_offset <= self._target:
                return before
            started = asyncio.ensure_future(self._after(self._log, before, end_offset))
        else:
            started = asyncio.ensure_future(self._sync(self._log, end_offset))
        self._under_way, self._target = started, end_offset
        # `on_failure` has reported a failure already; this future need not be awaited.
        started.add_done_callback(futures.ignore_failure)
        return started

    async def _after(self, log: LogView, before: asyncio.Future[None], end_offset: int) -> None:
        await asyncio.wait([before])
        await self._sync(log, end_offset)

    def truncate_to(self, offset: int) -> None:
        """The log was truncated. A sync under way does not cover what is appended in place of the removed records."""
        self.recovery_point = min(self.recovery_point, offset)
        self.checkpointed_point = min(self.checkpointed_point, offset)
        self._target = min(self._target, offset)
        self._valid_to = min(self._valid_to, offset)

    async def _sync(self, log: LogView, end_offset: int) -> None:
        self._valid_to = end_offset
        segments = self._unsynced(end_offset)
        try:
            await self._sync_segments(segments)
            if not segments:  # the leader epoch file and the directory only
                await self._env.doors.executor.run(sync_files, self._env.doors.files, *self._prepare([]))
        except OSError as error:
            raise self._env.failure(log.directory, error) from error
        self._advance(min(end_offset, self._valid_to), segments)

    async def _sync_segments(self, segments: list[Segment]) -> None:
        """Sync segments and the files beside them, off the loop and within the descriptor budget. OSError."""
        for part in _parts(segments):
            with _kept_open(part), self._timed():
                await self._env.doors.executor.run(sync_files, self._env.doors.files, *self._prepare(part))

    async def finish(self) -> None:
        """Sync everything, indexes included, of a log that takes no more appends, so that `close` does not wait for the
        disk. OSError."""
        log = self._log
        if self._under_way is not None and not self._under_way.done():
            await asyncio.wait([self._under_way])
        end_offset = log.log_end_offset
        segments = self._complete_all(end_offset)
        await self._sync_segments(segments)
        self._advance(end_offset, segments)
        for segment in segments:
            segment.indexes_unsynced = False

    def flush_blocking(self) -> None:
        """Sync everything; blocks. OSError."""
        end_offset = self._log.log_end_offset
        segments = self._complete_all(end_offset)
        for part in _parts(segments):
            with _kept_open(part), self._timed():
                sync_files(self._env.doors.files, *self._prepare(part))
        self._advance(end_offset, segments)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Record how long a sync takes that succeeds."""
        clock = self._env.doors.clock
        begun_s = clock.monotonic()
        yield
        self._env.flush_us.record(int((clock.monotonic() - begun_s) * 1_000_000))

    def _complete_all(self, end_offset: int) -> list[Segment]:
        """Write all indexes to their files; the segments to sync afterwards."""
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
                segment.file.give_back_room()
        # The log may have been truncated meanwhile: the recovery point must not lie beyond its end.
        self.recovery_point = max(self.recovery_point, min(end_offset, self._log.log_end_offset))
        self._is_named = True
        self.last_flush_ms = self._env.doors.clock.time_ms()

    def _unsynced(self, end_offset: int) -> list[Segment]:
        """The segments to sync up to an end offset: those beyond the recovery point, and those sealed since.

        Empty ones are included, since their old index entries must not be back after a power loss. Segments beyond the
        end are left out: they are synced when the names of those before them are on stable storage, or a power loss
        could leave a hole in the log.
        """
        segments = self._log.segments
        ends = [segment.base_offset for segment in segments[1:]] + [self._log.log_end_offset]
        return [
            segment
            for segment, end in zip(segments, ends, strict=True)
            if (segment.base_offset < end_offset and (end > self.recovery_point or segment in self._sealed))
            or (not segment.size and segment in self._sealed)
        ]

    def _prepare(self, segments: list[Segment]) -> tuple[list[int], list[str]]:
        """What to sync: descriptors of `.log` files, and the paths of all files beside them and of the directory."""
        log = self._log
        if log.epochs.dirty:
            log.epochs.write()
        paths = []
        for segment in segments:
            segment.flush_indexes()
            paths += [path for path in segment.paths() if path != segment.file.path]
            paths.append(log.producer_state.snapshot_path(segment.base_offset))
            if segment is not log.active:  # producers whose batches are compacted away are in the snapshot behind it
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
    """Keep the file cache from closing these files: a thread is about to sync their descriptors."""
    for segment in segments:
        segment.file.retain()
    try:
        yield
    finally:
        for segment in segments:
            segment.file.release()
