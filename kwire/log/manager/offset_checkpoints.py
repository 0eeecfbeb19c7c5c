"""The offset checkpoints of all log directories: recovery points, log starts and high watermarks, kept up to date.

Each directory has one small file for each of the three, with a line for every log in it. They are written off the loop
and only when they have something new to say; and at once where what they say must not outlive a deleted log. When, is
the manager's decision; the files' format is in `checkpoints`, the cleaner's own checkpoint in `cleaner_checkpoint`.
"""

from __future__ import annotations

import asyncio
import errno
import os.path
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
from kwire.log.common import checkpoints
from kwire.log.common.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE, TopicPartition

if TYPE_CHECKING:
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.partition.partition_log import PartitionLog

NOTHING_TO_SAY = -1
"""A log start offset that its first segment's name tells is not checkpointed."""

CHECKPOINTED: dict[str, Callable[[PartitionLog], int]] = {
    RECOVERY_POINT_FILE: lambda log: log.recovery_point,
    LOG_START_OFFSET_FILE: lambda log: (
        log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else NOTHING_TO_SAY
    ),
    HIGH_WATERMARK_FILE: lambda log: log.high_watermark,
}
"""The checkpoint files, and what each keeps of a log."""

Collect = Callable[["LogDirectory", str], Mapping[TopicPartition, int]]
"""(directory, file) -> what the file shall say of each log in the directory."""


class OffsetCheckpoints:
    """``collect`` tells what there is to write, ``on_failure(directory's path, error)`` hears of failed writes."""

    def __init__(self, doors: Doors, collect: Collect, on_failure: Callable[[str, OSError], None]) -> None:
        self._files = doors.files
        self._executor = doors.executor
        self._collect = collect
        self._on_failure = on_failure
        self._jobs: dict[str, asyncio.Future[None]] = {}  # files that are being written, by path
        self._seen: dict[str, tuple[list[TopicPartition], list[int]]] = {}  # what `update` found last, by path

    def _text(self, found: Mapping[TopicPartition, int]) -> str:
        return checkpoints.offsets_text({key: offset for key, offset in found.items() if offset != NOTHING_TO_SAY})

    def update(self, directory: LogDirectory, file: str) -> None:
        """Write one file in the background, if there is news."""
        path = f"{directory.path}/{file}"
        if path in self._jobs:
            return
        found = self._collect(directory, file)
        seen = list(found), list(found.values())
        if file in directory.checkpoint_texts and self._seen.get(path) == seen:
            return  # thousands of idle logs cost a comparison, not a text
        text = self._text(found)
        self._seen[path] = seen
        if directory.checkpoint_texts.get(file) == text:
            return
        directory.checkpoint_texts[file] = text
        self._jobs[path] = asyncio.ensure_future(self._write(directory, path, text, list(directory.retired)))

    async def _write(self, directory: LogDirectory, path: str, text: str, gone: list[TopicPartition]) -> None:
        try:
            await self._executor.run(checkpoints.write_text, self._files, path, text, sync=True)
            _note_written(directory, os.path.basename(path), gone)
        except OSError as error:
            directory.checkpoint_texts.pop(os.path.basename(path), None)  # to be tried again
            self._on_failure(directory.path, error)
        finally:
            del self._jobs[path]

    async def keep_recovery_point(self, directory: LogDirectory, log: PartitionLog, end_offset: int) -> None:
        """Return when the recovery point on stable storage is at or beyond an offset up to which the log was synced.
        OSError."""
        if log.flusher.kept_point >= end_offset:
            return
        path = f"{directory.path}/{RECOVERY_POINT_FILE}"
        while path in self._jobs:
            await asyncio.wait([self._jobs[path]])
        recovery_point = log.recovery_point
        self.update(directory, RECOVERY_POINT_FILE)
        if path in self._jobs:
            await asyncio.wait([self._jobs[path]])
            if RECOVERY_POINT_FILE not in directory.checkpoint_texts:
                raise OSError(errno.EAGAIN, f"{path} could not be written")
        log.flusher.kept_point = recovery_point

    def write_all(self, directory: LogDirectory, *, sync: bool = False) -> None:
        """Write all files of a directory now. OSError."""
        for file in CHECKPOINTED:
            path = f"{directory.path}/{file}"
            if path in self._jobs:
                directory.checkpoint_texts.pop(file, None)  # being written: the next round brings the news
                continue
            text = self._text(self._collect(directory, file))
            directory.checkpoint_texts.pop(file, None)
            self._seen.pop(path, None)
            checkpoints.write_text(self._files, path, text, sync=sync)
            if sync:
                directory.checkpoint_texts[file] = text
                _note_written(directory, file, list(directory.retired))

    async def settled(self) -> None:
        """Wait for what is being written."""
        while self._jobs:
            await asyncio.wait(list(self._jobs.values()))


def _note_written(directory: LogDirectory, file: str, gone: list[TopicPartition]) -> None:
    """A checkpoint is on stable storage that does not name these logs any more."""
    for key in gone:
        files = directory.retired.get(key)
        if files is not None:
            files.discard(file)
            if not files:
                del directory.retired[key]
