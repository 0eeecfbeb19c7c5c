"""Files that are renamed now and removed later (`file.delete.delay.ms`), so that reads under way can complete.

A thread removes them, some at a time: to give back the space of a large file takes the file system long, and thousands
of topics may be deleted at once. What waits is one tuple for each directory, which the garbage collector need not look
into: timers of their own would be a dozen objects each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final

from kwire.base.doors import Doors
from kwire.base.logging import get_logger
from kwire.log.common.names import DELETED_SUFFIX

logger = get_logger("kwire.log")

REMOVED_AT_ONCE: Final = 20
"""Directories, or groups of files, that a thread removes in one call."""

CLOCK_S: Final = 0.001
"""Timers may come so much too early."""

Doomed = str | tuple[str, ...]
"""A directory, or files."""


class DelayedRemover:
    """Renames files now and removes them later.

    Without a running loop (tools, tests) files are removed at once. Recovery at the next start removes what a stop
    leaves behind.
    """

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._files = doors.files
        self._waiting: list[tuple[float, int, Doomed]] = []  # a heap: when, a number that decides between equals, what
        self._numbers = count()
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0
        self._removing = False  # a thread is

    def remove_files(self, paths: list[str], delay_ms: int) -> None:
        """Rename files to `.deleted` and remove them after the delay. OSError from the renaming."""
        for path in paths:
            self._files.replace(path, path + DELETED_SUFFIX)
        self._later(delay_ms, tuple(path + DELETED_SUFFIX for path in paths))

    def remove_directory(self, path: str, delay_ms: int) -> None:
        """Remove a whole directory after the delay."""
        self._later(delay_ms, path)

    def remove_now(self, path: str) -> None:
        """Remove a whole directory at once; a failure is logged only."""
        _report(self._remove([path]))

    def _later(self, delay_ms: int, doomed: Doomed) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _report(self._remove([doomed]))
            return
        heappush(self._waiting, (loop.time() + delay_ms / 1000, next(self._numbers), doomed))
        self._wait(loop)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timer for what is due first."""
        if self._removing or not self._waiting:
            return
        due_s = self._waiting[0][0]
        if self._timer is not None:
            if self._timer_s <= due_s:
                return
            self._timer.cancel()
        self._timer, self._timer_s = loop.call_at(due_s, self._begin, loop), due_s

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        latest_s = loop.time() + CLOCK_S
        due: list[Doomed] = []
        while self._waiting and self._waiting[0][0] <= latest_s and len(due) < REMOVED_AT_ONCE:
            due.append(heappop(self._waiting)[2])
        if due:
            self._removing = True
            self._doors.executor.run(self._remove, due).add_done_callback(partial(self._removed, loop))
        else:
            self._wait(loop)

    def _removed(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[list[tuple[str, OSError]]]) -> None:
        self._removing = False
        self._wait(loop)
        if not done.cancelled():
            _report(done.result())

    def _remove(self, due: Sequence[Doomed]) -> list[tuple[str, OSError]]:
        """Remove directories and files; the failures. Runs on a thread."""
        failures = []
        for doomed in due:
            for path in (doomed,) if isinstance(doomed, str) else doomed:
                try:
                    (self._files.rmtree if path is doomed else self._files.unlink)(path)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    failures.append((path, error))
        return failures

    def close(self) -> None:
        """Give up what has not been removed yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()


def _report(failures: list[tuple[str, OSError]]) -> None:
    for path, error in failures:
        logger.warning("cannot remove", path=path, error=str(error))
