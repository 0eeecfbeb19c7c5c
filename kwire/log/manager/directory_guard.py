"""What an OSError means for a log directory: trouble that passes, or the end of it.

No space and no descriptors pass: whoever wrote is told, and nothing else changes. A missing file is its log's trouble
(or none: a topic deleted meanwhile), unless the directory is missing too. Anything else (EIO, a directory that is gone)
takes the whole directory offline until the next start, as in Kafka: what such a disk still answers is not to be relied
on. Also notices a directory that went away while its files are open. What then happens to the logs inside is the
manager's, to partitions and the cluster the broker's.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence

from kwire.base.doors import Doors
from kwire.log.common.environment import is_transient, logger
from kwire.log.common.log_dirs import LogDirectory

COMPLAINT_INTERVAL_S = 10.0
"""How often the same passing trouble of a directory is told."""


class DirectoryGuard:
    """Hears of every failure. ``take_offline`` is called once for a directory that has failed, in a later turn of the
    loop (at once where none runs): never in the middle of what has failed."""

    def __init__(
        self, doors: Doors, directories: Sequence[LogDirectory], take_offline: Callable[[LogDirectory, OSError], None]
    ) -> None:
        self._doors = doors
        self._directories = directories
        self._take_offline = take_offline

    def directory_of(self, path: str) -> LogDirectory | None:
        """The entry of `log.dirs` that is a path, or that the path lies in."""
        holders = [each for each in self._directories if path == each.path or path.startswith(each.path + "/")]
        return max(holders, key=lambda each: len(each.path), default=None)

    def report(self, path: str, error: OSError) -> None:
        """An OSError was met under a path."""
        directory = self.directory_of(path)
        if directory is None or not directory.online:
            return
        if is_transient(error):
            self._complain(directory, error)
        elif error.errno == errno.ENOENT and path != directory.path:
            self._look_after(directory)
        else:
            self.fail(directory, error)

    def _look_after(self, directory: LogDirectory) -> None:
        """Something is missing in a directory: is it the directory?"""
        try:
            directory.check()
        except OSError as error:
            self.fail(directory, error)

    def fail(self, directory: LogDirectory, error: OSError) -> None:
        """A directory is not to be used any more."""
        if not directory.online:
            return
        directory.failed = error
        logger.error("log directory failed and is offline", directory=directory.path, cause=str(error))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._take_offline(directory, error)
        else:
            loop.call_soon(self._take_offline, directory, error)

    def _complain(self, directory: LogDirectory, error: OSError) -> None:
        now, code = self._doors.clock.monotonic(), error.errno or 0
        if now - directory.complaints.get(code, float("-inf")) >= COMPLAINT_INTERVAL_S:
            directory.complaints[code] = now
            logger.error("log directory takes no writes at present", directory=directory.path, cause=str(error))

    async def check(self) -> None:
        """Look whether all directories are still there."""
        for directory in self._directories:
            if directory.online:
                try:
                    await self._doors.executor.run(directory.check)
                except OSError as error:
                    self.report(directory.path, error)
