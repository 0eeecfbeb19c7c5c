"""Writing the offset checkpoints of all log directories: recovery points, log start offsets and high watermarks.

Each directory has a small file for each of the three, with a line for every log. They are written off the loop, and
only if they have changed; and at once after a log was deleted, since its entries must not outlive it. The manager
decides when. The format is in `common.checkpoints`, the cleaner's own checkpoint in `compaction.checkpoint`.
"""

from __future__ import annotations

import asyncio
import errno
import os.path
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
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

Collect = Callable[["LogDirectory", str], Mapping[TopicPartition, int]]
"""(directory, file) -> the offset of each log in the directory."""


class OffsetCheckpoints:
    """``collect`` returns the offsets to write; ``on_failure(path, error)`` is called if a write fails."""

    def __init__(self, doors: Doors, collect: Collect, on_failure: Callable[[str, OSError], None]) -> None:
        self._files = doors.files
        self._executor = doors.executor
        self._collect = collect
        self._on_failure = on_failure
        self._jobs: dict[str, asyncio.Future[None]] = {}  # writes under way, by path
        self._seen: dict[str, tuple[list[TopicPartition], list[int]]] = {}  # what `update` collected last, by path

    def _text(self, found: Mapping[TopicPartition, int]) -> str:
        return checkpoints.offsets_text({key: offset for key, offset in found.items() if offset != NOT_CHECKPOINTED})

    def update(self, directory: LogDirectory, file: str) -> None:
        """Write one file in the background, if it has changed."""
        path = f"{directory.path}/{file}"
        if path in self._jobs:
            return
        found = self._collect(directory, file)
        seen = list(found), list(found.values())
        if file in directory.checkpoint_texts and self._seen.get(path) == seen:
            return  # with thousands of idle logs, a comparison is cheaper than the text
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

    async def write_recovery_point(self, directory: LogDirectory, log: PartitionLog, end_offset: int) -> None:
        """Return when the checkpointed recovery point on stable storage is at or beyond an offset up to which the log
        was synced. OSError."""
        if log.flusher.checkpointed_point >= end_offset:
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
        log.flusher.checkpointed_point = recovery_point

    def write_all(self, directory: LogDirectory, *, sync: bool = False) -> None:
        """Write all files of a directory now. OSError."""
        for file in CHECKPOINTED:
            path = f"{directory.path}/{file}"
            if path in self._jobs:
                directory.checkpoint_texts.pop(file, None)  # being written: the next `update` writes it again
                continue
            text = self._text(self._collect(directory, file))
            directory.checkpoint_texts.pop(file, None)
            self._seen.pop(path, None)
            checkpoints.write_text(self._files, path, text, sync=sync)
            if sync:
                directory.checkpoint_texts[file] = text
                _note_written(directory, file, list(directory.retired))

    async def settled(self) -> None:
        """Return when no write is under way."""
        while self._jobs:
            await asyncio.wait(list(self._jobs.values()))


def _note_written(directory: LogDirectory, file: str, gone: list[TopicPartition]) -> None:
    """Note that the checkpoint on stable storage no longer names these removed logs."""
    for key in gone:
        files = directory.retired.get(key)
        if files is not None:
            files.discard(file)
            if not files:
                del directory.retired[key]
