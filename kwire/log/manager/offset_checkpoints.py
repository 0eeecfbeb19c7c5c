"""Writing the offset checkpoints of all log directories: recovery points, log start offsets and high watermarks.

Each directory has a small file for each of the three, with a line for every log. They are written off the loop, and
only if they have changed; and at once after a log was deleted, since its entries must not outlive it. The manager
decides when. The format is in `common.checkpoints`, the cleaner's own checkpoint in `compaction.checkpoint`.
"""

from __future__ import annotations

import asyncio
import errno
import os.path
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.doors import Doors
from kwire.base.futures import in_turns
from kwire.base.topic_partition import TopicPartition
from kwire.log.common import checkpoints
from kwire.log.common.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE

if TYPE_CHECKING:
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.partition.partition_log import PartitionLog

NOT_CHECKPOINTED = -1
"""Marks a log start offset that is the base offset of the first segment: the checkpoint leaves it out."""

CHECKPOINTED: dict[str, Callable[[PartitionLog], int]] = {
    RECOVERY_POINT_FILE: lambda log: log.recovery_point,
    LOG_START_OFFSET_FILE: lambda log: (
        log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else NOT_CHECKPOINTED
    ),
    HIGH_WATERMARK_FILE: lambda log: log.high_watermark,
}
"""The checkpoint files, and the offset that each has of a log."""

Collect = Callable[["LogDirectory", str, Sequence[TopicPartition]], dict[TopicPartition, int]]
"""(directory, file, logs) -> the offset of each of these logs that is in the directory."""

SLICE_LINES: Final = 250
"""Logs whose offsets are collected, and lines of a file that are made, in one turn of the event loop: a quarter of a
millisecond."""


class OffsetCheckpoints:
    """``logs`` names all logs, ``collect`` returns their offsets; ``on_failure(path, error)`` is called if a write
    fails."""

    def __init__(
        self,
        doors: Doors,
        logs: Callable[[], list[TopicPartition]],
        collect: Collect,
        on_failure: Callable[[str, OSError], None],
    ) -> None:
        self._files = doors.files
        self._executor = doors.executor
        self._logs = logs
        self._collect = collect
        self._on_failure = on_failure
        self._jobs: dict[str, asyncio.Future[None]] = {}  # writes under way, by path
        self._texts: dict[str, asyncio.Future[None]] = {}  # texts that are being made, by path
        self._begun: Counter[str] = Counter()  # writes that were begun, by path
        self._seen: dict[str, tuple[list[TopicPartition], list[int]]] = {}  # what the last text was made of, by path

    def _text(self, found: Mapping[TopicPartition, int]) -> str:
        return checkpoints.offsets_text(_checkpointed(found))

    def update(self, directory: LogDirectory, file: str, *, at_once: bool = False) -> None:
        """Write one file in the background, if it has changed. What concerns very many logs is done in slices, unless
        ``at_once``: then the write has begun when this returns."""
        path = f"{directory.path}/{file}"
        if path in self._jobs or (path in self._texts and not at_once):
            return
        logs = self._logs()
        if not at_once and len(logs) > SLICE_LINES:
            self._texts[path] = asyncio.ensure_future(self._begin_later(directory, file, logs))
            return
        found = self._collect(directory, file, logs)
        if not self._is_written(directory, file, found):
            self._begin(directory, file, found, self._text(found), list(directory.retired))

    def _is_written(self, directory: LogDirectory, file: str, found: Mapping[TopicPartition, int]) -> bool:
        """Whether a write with these offsets was begun last. With thousands of idle logs, this comparison is cheaper
        than the text."""
        seen = self._seen.get(f"{directory.path}/{file}")
        return file in directory.checkpoint_texts and seen == (list(found), list(found.values()))

    def _collect_in_slices(
        self, directory: LogDirectory, file: str, logs: Sequence[TopicPartition]
    ) -> Generator[None, None, dict[TopicPartition, int]]:
        """The offsets of these logs, with a step after every `SLICE_LINES`. A log that is deleted meanwhile may be
        named: then the file is written again."""
        found: dict[TopicPartition, int] = {}
        for start in range(0, len(logs), SLICE_LINES):
            if start:
                yield
            found |= self._collect(directory, file, logs[start : start + SLICE_LINES])
        return found

    def _begin(
        self,
        directory: LogDirectory,
        file: str,
        found: Mapping[TopicPartition, int],
        text: str,
        gone: list[TopicPartition],
    ) -> None:
        """Begin a write of the text of these offsets, unless the file has it. ``gone``: logs that it does not name."""
        path = f"{directory.path}/{file}"
        self._seen[path] = list(found), list(found.values())
        if directory.checkpoint_texts.get(file) == text:
            return
        directory.checkpoint_texts[file] = text
        self._begun[path] += 1
        self._jobs[path] = asyncio.ensure_future(self._write(directory, path, text, gone))

    async def _begin_later(self, directory: LogDirectory, file: str, logs: Sequence[TopicPartition]) -> None:
        """`_begin` with a text that is made in slices, unless a newer one is written meanwhile."""
        path = f"{directory.path}/{file}"
        begun, gone = self._begun[path], list(directory.retired)
        try:
            found = await in_turns(self._collect_in_slices(directory, file, logs))
            if self._begun[path] != begun or self._is_written(directory, file, found):
                return
            text = await in_turns(checkpoints.offsets_text_in_slices(found, SLICE_LINES, NOT_CHECKPOINTED))
        finally:
            del self._texts[path]
        if self._begun[path] == begun and directory.online:
            self._begin(directory, file, found, text, gone)

    async def _write(self, directory: LogDirectory, path: str, text: str, gone: list[TopicPartition]) -> None:
        try:
            await self._executor.run(checkpoints.write_text, self._files, path, text, sync=True)
            _note_written(directory, os.path.basename(path), gone)
        except OSError as error:
            directory.checkpoint_texts.pop(os.path.basename(path), None)  # to be tried again
            self._on_failure(directory.path, error)
        finally:
            del self._jobs[path]

    async def write_recovery_point(self, directory: LogDirectory, log: PartitionLog, end_offset: int) -> None:
        """Return when the checkpointed recovery point on stable storage is at or beyond an offset up to which the log
        was synced. OSError."""
        if log.flusher.checkpointed_point >= end_offset:
            return
        path = f"{directory.path}/{RECOVERY_POINT_FILE}"
        while path in self._jobs:
            await asyncio.wait([self._jobs[path]])
        recovery_point = log.recovery_point
        self.update(directory, RECOVERY_POINT_FILE, at_once=True)
        if path in self._jobs:
            await asyncio.wait([self._jobs[path]])
            if RECOVERY_POINT_FILE not in directory.checkpoint_texts:
                raise OSError(errno.EAGAIN, f"{path} could not be written")
        log.flusher.checkpointed_point = recovery_point

    def write_all(self, directory: LogDirectory, *, sync: bool = False) -> None:
        """Write all files of a directory now. OSError."""
        for file in CHECKPOINTED:
            path = f"{directory.path}/{file}"
            if path in self._jobs:
                directory.checkpoint_texts.pop(file, None)  # being written: the next `update` writes it again
                continue
            text = self._text(self._collect(directory, file, self._logs()))
            self._write_now(directory, file, text, sync=sync)
            if sync:
                directory.checkpoint_texts[file] = text
                _note_written(directory, file, list(directory.retired))

    def _write_now(self, directory: LogDirectory, file: str, text: str, *, sync: bool) -> None:
        path = f"{directory.path}/{file}"
        self._begun[path] += 1
        directory.checkpoint_texts.pop(file, None)
        self._seen.pop(path, None)
        checkpoints.write_text(self._files, path, text, sync=sync)

    async def write_all_in_slices(self, directory: LogDirectory) -> None:
        """`write_all` without a sync for a directory of very many logs, with turns for others. OSError."""
        for file in CHECKPOINTED:
            path = f"{directory.path}/{file}"
            begun = self._begun[path]
            found = await in_turns(self._collect_in_slices(directory, file, self._logs()))
            text = await in_turns(checkpoints.offsets_text_in_slices(found, SLICE_LINES, NOT_CHECKPOINTED))
            if not directory.online:
                return
            if path in self._jobs:
                directory.checkpoint_texts.pop(file, None)  # being written: the next `update` writes it again
            elif self._begun[path] == begun:  # otherwise a newer one has been written meanwhile
                self._write_now(directory, file, text, sync=False)

    async def settled(self) -> None:
        """Return when no write is under way."""
        while running := [*self._texts.values(), *self._jobs.values()]:
            await asyncio.wait(running)


def _checkpointed(found: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {key: offset for key, offset in found.items() if offset != NOT_CHECKPOINTED}


def _note_written(directory: LogDirectory, file: str, gone: list[TopicPartition]) -> None:
    """Note that the checkpoint on stable storage no longer names these removed logs."""
    for key in gone:
        files = directory.retired.get(key)
        if files is not None:
            files.discard(file)
            if not files:
                del directory.retired[key]
