"""Moving a log to another entry of `log.dirs` while it is written and read (AlterReplicaLogDirs, KIP-113).

A move has these passes: 1. the active segment is rolled, so that all before it are immutable; 2. those are copied, off
the loop, into a `-future` directory beside the target's partitions; 3. both are repeated until little was appended
meanwhile; 4. in one turn of the event loop the old log is closed, the rest copied, the future directory renamed to its
final name, the log opened there, and the old directory renamed to `-delete`. Reads under way keep the old files open.

A crash leaves either the old directory only (and a `-future` one, which the next start removes), or both complete, of
which the next start takes one. `kwire.cluster.replication.replica_manager` decides which logs to move.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kwire.base.doors import Doors, Files
from kwire.base.errors import KafkaError
from kwire.base.quota import Quota
from kwire.log.common import names
from kwire.log.common.environment import logger
from kwire.log.partition.opening import open_log
from kwire.log.partition.partition_log import PartitionLog

if TYPE_CHECKING:
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager

CHUNK_BYTES = 4 * 1024 * 1024
PAUSE_MAX_S = 1.0
"""How long a throttled copy waits at most before it reads the quota again, which may change."""
REST_BYTES = 1024 * 1024
"""With so many bytes or fewer left to copy, pass 4 begins."""


class Move:
    """One move under way: ``run(move)`` is its task; segments are copied up to the offset ``copied_to``."""

    __slots__ = ("copied_to", "directory", "target", "task")

    def __init__(
        self, target: LogDirectory, directory: str, copied_to: int, run: Callable[[Move], Coroutine[Any, Any, None]]
    ) -> None:
        self.target = target
        self.directory = directory
        self.copied_to = copied_to
        self.task = asyncio.ensure_future(run(self))


class LogMover:
    """The moves of a broker. ``quota`` is that of `replica.alter.log.dirs.io.max.bytes.per.second`, for all together;
    ``on_moved`` is called with each log opened in its new directory, in the same turn of the event loop."""

    def __init__(
        self,
        doors: Doors,
        logs: LogManager,
        quota: Quota,
        on_moved: Callable[[PartitionLog], None],
    ) -> None:
        self._files = doors.files
        self._executor = doors.executor
        self._random = doors.random
        self._logs = logs
        self._quota = quota
        self._on_moved = on_moved
        self.moves: dict[tuple[str, int], Move] = {}

    def start(self, log: PartitionLog, target: LogDirectory) -> None:
        """Begin to move a log. Another move of it is cancelled, unless it has the same target. If the log lies in the
        target already, only that is done."""
        key = (log.topic, log.partition)
        present = self.moves.get(key)
        if present is not None:
            if present.target is target:
                return
            self.cancel(*key)
        if self._logs.directory_of(*key) is target:
            return
        unique = self._random.randbytes(16)
        name = names.leaving_directory_name(*key, unique, names.FUTURE_DIRECTORY_SUFFIX)
        self.moves[key] = Move(target, f"{target.path}/{name}", log.log_start_offset, partial(self._run, log))

    def cancel(self, topic: str, partition: int) -> None:
        """Cancel a move, if there is one, and remove what was copied."""
        move = self.moves.pop((topic, partition), None)
        if move is not None:
            move.task.cancel()

    def cancel_into(self, target: LogDirectory) -> None:
        """Cancel the moves to a directory."""
        for key in [key for key, move in self.moves.items() if move.target is target]:
            self.cancel(*key)

    async def close(self) -> None:
        """Cancel all moves, and wait until they have ended."""
        tasks = [move.task for move in self.moves.values()]
        for key in list(self.moves):
            self.cancel(*key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, log: PartitionLog, move: Move) -> None:
        try:
            self._files.makedirs(move.directory)
            copied = await self._copy_sealed(log, move)
            flushing = log.flush()
            if flushing is not None:  # so that closing the log has little left to sync
                await flushing
            self._take_over(log, move, copied)
            logger.info("log moved", partition=log.name, directory=move.target.path)
        except asyncio.CancelledError:
            raise
        except (OSError, KafkaError) as error:
            if log.closed and self._logs.get(log.topic, log.partition) is log:
                log.closed = False  # it stays in the old directory
            if not log.closed:
                logger.error("log cannot be moved", partition=log.name, to=move.target.path, error=str(error))
                if isinstance(error, OSError) and error.filename:
                    self._logs.guard.report(str(error.filename), error)
        finally:
            if self.moves.get((log.topic, log.partition)) is move:
                del self.moves[log.topic, log.partition]
            if self._files.exists(move.directory):
                self._logs.env.remover.remove_directory(move.directory, 0)

    # -- passes 1 to 3 -------------------------------------------------------------------------------------------------

    async def _copy_sealed(self, log: PartitionLog, move: Move) -> set[int]:
        """Copy sealed segments until little is left; the base offsets of those copied."""
        copied: set[int] = set()
        while not log.closed:
            missing = [segment for segment in log.segments if segment.base_offset not in copied]
            if sum(segment.size for segment in missing) <= REST_BYTES:
                break
            log.roll()
            for segment, following in pairwise(log.segments):
                if segment.base_offset in copied:
                    continue
                for path in segment.paths():
                    await self._copy(path, move.directory)
                copied.add(segment.base_offset)
                move.copied_to = following.base_offset
        return copied

    async def _copy(self, path: str, directory: str) -> None:
        target = f"{directory}/{os.path.basename(path)}"
        position = 0
        while True:
            while self._quota.is_exceeded():  # noqa: ASYNC110 - a quota has no event
                await asyncio.sleep(max(self._quota.pause_s(PAUSE_MAX_S), 0.001))
            chunk = self._executor.run(copy_chunk, self._files, path, target, position)
            try:
                done = await asyncio.shield(chunk)
            except FileNotFoundError:  # retention has deleted it
                return
            except asyncio.CancelledError:  # the directory is removed next: not before this write has ended
                await asyncio.wait([chunk])
                raise
            position += done
            self._quota.record(done)
            if done < CHUNK_BYTES:
                return

    # -- pass 4 --------------------------------------------------------------------------------------------------------

    def _take_over(self, log: PartitionLog, move: Move, copied: set[int]) -> None:
        """Make pass 4, without an await. KafkaError, OSError."""
        files, old = self._files, log.directory
        high_watermark, log_start_offset = log.high_watermark, log.log_start_offset
        here = self._logs.directory_of(log.topic, log.partition)
        if log.closed or here is None:
            return
        log.close()
        bases = {segment.base_offset for segment in log.segments}
        for name in files.listdir(old):
            parsed = names.parse_file_name(name)
            is_copied = parsed is not None and parsed[0] in copied and parsed[1] in names.SEGMENT_SUFFIXES
            if not is_copied and not name.endswith((names.DELETED_SUFFIX, names.TEMPORARY_SUFFIX)):
                copy_chunk(files, f"{old}/{name}", f"{move.directory}/{name}", 0, size_max=-1)
        for name in files.listdir(move.directory):
            parsed = names.parse_file_name(name)
            if parsed is not None and parsed[0] not in bases and parsed[1] in names.SEGMENT_SUFFIXES:
                files.unlink(f"{move.directory}/{name}")
        path = f"{move.target.path}/{log.name}"
        files.sync_dir(move.directory)
        files.replace(move.directory, path)
        files.sync_dir(move.target.path)
        new = open_log(
            self._logs.env,
            path,
            log.topic,
            log.partition,
            log.topic_id,
            log.config,
            recovery_point=log.log_end_offset,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
        )
        self._logs.replace(log, new, move.target)
        self._on_moved(new)


def copy_chunk(files: Files, source: str, target: str, position: int, *, size_max: int = CHUNK_BYTES) -> int:
    """Copy up to ``size_max`` bytes (-1: all) of a file to the same position of another, which is synced at the end of
    the file. Returns the number of bytes; fewer than ``size_max`` means the end. OSError."""
    reading = files.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if size_max < 0:
            size_max = files.size(reading) + 1
        data = files.pread(reading, size_max, position)
    finally:
        files.close(reading)
    writing = files.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        view, at = memoryview(data), position
        while view:
            written = files.pwrite(writing, view, at)
            view, at = view[written:], at + written
        if len(data) < size_max:
            files.fsync(writing)
    finally:
        files.close(writing)
    return len(data)
