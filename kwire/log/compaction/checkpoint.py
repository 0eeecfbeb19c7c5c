"""`cleaner-offset-checkpoint` of every log directory: the offset up to which each compacted log is clean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
from kwire.base.topic_partition import TopicPartition
from kwire.log.common import checkpoints
from kwire.log.common.checkpoints import CLEANER_FILE, CorruptCheckpoint, read_offsets
from kwire.log.common.environment import logger

if TYPE_CHECKING:
    from kwire.log.common.log_dirs import LogDirectory


class CleanerCheckpoints:
    """The checkpoints of all directories, in memory. Each file is written as a whole and synced, off the loop, with one
    write at a time."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._offsets: dict[str, dict[TopicPartition, int]] = {}  # by directory
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._stale: dict[str, None] = {}  # changed since their write began

    def load(self, directories: Iterable[LogDirectory]) -> None:
        """Read the files; without a readable one, all logs of its directory are dirty."""
        for directory in directories:
            try:
                found = read_offsets(self._doors.files, f"{directory.path}/{CLEANER_FILE}")
            except (CorruptCheckpoint, OSError) as error:
                logger.warning("checkpoint not read", error=str(error))
                found = {}
            self._offsets[directory.path] = found

    def get(self, directory: LogDirectory, key: TopicPartition) -> int | None:
        """The offset up to which a log is clean, if it is known."""
        return self._offsets.get(directory.path, {}).get(key)

    def set(self, directory: LogDirectory, key: TopicPartition, offset: int | None) -> None:
        """Set or remove the offset of a log, and write the file soon."""
        known = self._offsets.setdefault(directory.path, {})
        if known.get(key) == offset:
            return
        if offset is None:
            del known[key]
        else:
            known[key] = offset
        self._stale[directory.path] = None
        if directory.path not in self._writing:
            self._writing[directory.path] = asyncio.ensure_future(self._write(directory.path))

    async def _write(self, path: str) -> None:
        try:
            while path in self._stale:
                del self._stale[path]
                text = checkpoints.offsets_text(self._offsets[path])
                file = f"{path}/{CLEANER_FILE}"
                await self._doors.executor.run(checkpoints.write_text, self._doors.files, file, text, sync=True)
        except OSError as error:  # the next change tries again; cleaning twice does no harm
            logger.warning("checkpoint not written", path=path, error=str(error))
        finally:
            del self._writing[path]

    async def settled(self) -> None:
        """Return when no write is under way."""
        while self._writing:
            await asyncio.wait(list(self._writing.values()))
