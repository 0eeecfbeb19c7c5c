"""What an OSError means for a log directory: a transient error, or a failed directory.

Missing space or descriptors are transient: the operation fails, and nothing else changes. A missing file concerns its
log only (or nothing, if the topic was deleted meanwhile), unless the directory is missing, too. Any other error (EIO, a
removed directory) takes the whole directory offline until the next start, as in Kafka: such a disk cannot be relied on.
A periodic check also notices a directory that was removed while its files are open. The manager closes the logs of a
failed directory; partitions and the cluster are the broker's.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence

from kwire.base.doors import Doors
from kwire.log.common.environment import is_transient, logger
from kwire.log.common.log_dirs import LogDirectory

LOG_INTERVAL_S = 10.0
"""How often the same transient error of a directory is logged."""


class DirectoryGuard:
    """Every OSError of a log directory is reported here. ``take_offline`` is called once for a directory that has
    failed, in a later turn of the event loop (at once without one): never within the operation that failed."""

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
        """Report an OSError under a path."""
        directory = self.directory_of(path)
        if directory is None or not directory.online:
            return
        if is_transient(error):
            self._log_transient(directory, error)
        elif error.errno == errno.ENOENT and path != directory.path:
            self._check_exists(directory)
        else:
            self.fail(directory, error)

    def _check_exists(self, directory: LogDirectory) -> None:
        """A file is missing: fail the directory if it is missing, too."""
        try:
            directory.check()
        except OSError as error:
            self.fail(directory, error)

    def fail(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline."""
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

    def _log_transient(self, directory: LogDirectory, error: OSError) -> None:
        now, code = self._doors.clock.monotonic(), error.errno or 0
        if now - directory.transient_errors.get(code, float("-inf")) >= LOG_INTERVAL_S:
            directory.transient_errors[code] = now
            logger.error("log directory accepts no writes at present", directory=directory.path, cause=str(error))

    async def check(self) -> None:
        """Check that all directories still exist."""
        for directory in self._directories:
            if directory.online:
                try:
                    await self._doors.executor.run(directory.check)
                except OSError as error:
                    self.report(directory.path, error)
