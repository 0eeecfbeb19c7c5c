"""Open segment files under a descriptor budget.

A log has many files and most of them are idle, so a file is opened when it is used, and the longest unused one is
closed when too many are open (a clock: one flag per file instead of a reordered list, because the flag is set on every
append and fetch). A file that is being sent from or synced is counted as in use and stays open until that ends, even
if its segment is deleted meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kwire.base.doors import Files


class FileCache:
    """The files that are open now. ``budget`` is how many may stay open; those in use come on top if they must."""

    def __init__(self, files: Files, budget: int = 512) -> None:
        self.files = files
        self.budget = budget
        self._open: dict[LogFile, None] = {}

    @property
    def open_count(self) -> int:
        return len(self._open)

    def opened(self, file: LogFile) -> None:
        """A file has got a descriptor: close others if that is one too many."""
        self._open[file] = None
        if len(self._open) > self.budget:
            self._evict(len(self._open) - self.budget, keep=file)

    def open(self, path: str, flags: int) -> int:
        """Open a file; where the process has no descriptor left, half of the idle files give theirs back. OSError."""
        try:
            return self.files.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
        self._evict(len(self._open) // 2 + 1)
        return self.files.open(path, flags, 0o644)

    def closed(self, file: LogFile) -> None:
        self._open.pop(file, None)

    def sweep(self) -> None:
        """Close what was not touched since the last sweep: an idle partition owns no descriptor."""
        for file in list(self._open):
            if file.touched:
                file.touched = False
            elif file.users == 0:
                file.retire()

    def close_all(self) -> None:
        for file in list(self._open):
            file.close()

    def _evict(self, excess: int, keep: LogFile | None = None) -> None:
        for file in list(self._open)[: 2 * len(self._open)]:
            if excess <= 0:
                return
            if file is keep or file.users:
                continue
            if file.touched:  # a second chance, at the end of the queue
                file.touched = False
                self._open[file] = self._open.pop(file)
                continue
            file.retire()
            excess -= 1
        if excess > 0:  # everything was touched: the oldest go
            for file in [file for file in self._open if file is not keep and not file.users][:excess]:
                file.retire()


class LogFile:
    """One `.log` file: a descriptor while it is needed (``fd``, or -1), and a count of its users.

    Is the `FileOwner` of the ranges read from it.
    """

    __slots__ = ("_cache", "_doomed", "fd", "on_idle", "path", "touched", "users")

    def __init__(self, cache: FileCache, path: str) -> None:
        self._cache = cache
        self.path = path
        self.fd = -1
        self.users = 0
        self.touched = False
        self.on_idle: Callable[[], None] | None = None  # told when the cache closes the file for want of use
        self._doomed = False

    def descriptor(self, *, create: bool = False) -> int:
        """The open descriptor; opens the file if need be. OSError, also if it is not there and not to be created."""
        self.touched = True
        if self.fd < 0:
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            self.fd = self._cache.open(self.path, flags)
            self._cache.opened(self)
        self._doomed = False  # it was to be closed, and is wanted again
        return self.fd

    def retain(self) -> None:
        self.users += 1

    def release(self) -> None:
        self.users -= 1
        if self._doomed and self.users == 0:
            self._close_now()

    def retire(self) -> None:
        """Nobody has used the file for a while."""
        self.close()
        if self.on_idle is not None:
            self.on_idle()

    def close(self) -> None:
        """Give the descriptor back, now or when its last user is done."""
        if self.fd < 0:
            return
        if self.users:
            self._doomed = True
            return
        self._close_now()

    def _close_now(self) -> None:
        fd, self.fd = self.fd, -1
        self._doomed = False
        self._cache.closed(self)
        if fd >= 0:
            self._cache.files.close(fd)
