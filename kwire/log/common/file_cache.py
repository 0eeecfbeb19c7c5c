"""Open segment files under a descriptor budget.

A log has many files and most of them are idle, so a file is opened when it is used, and when too many are open, one
that was not used for long is closed. (The clock algorithm: a flag per file instead of an ordered list, because the flag
is set on every append and fetch.) A file that is being sent or synced counts as in use and stays open until that ends,
even if its segment is deleted meanwhile.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterator
from typing import Final, Protocol

from kwire.base.doors import Files

CLOSED_PER_STEP: Final = 64
"""How many idle files are closed in one turn of the event loop. Their indexes are written: two milliseconds."""


ROOM_BYTES: Final = 16 * 1024 * 1024
"""Room that is set aside at a time for a file that has grown by as much since the sweep before the last one: by half a
megabyte a second."""

NEVER: Final = 1 << 63
"""A position that no file reaches."""


class FileCache:
    """The open files. ``budget`` is how many may stay open; files in use may exceed it. ``sweeps`` counts `sweep`;
    ``makes_room``: whether files that grow quickly have room set aside, see `LogFile.make_room`."""

    def __init__(self, files: Files, budget: int = 512, *, makes_room: bool = False) -> None:
        self.files = files
        self.budget = budget
        self.makes_room = makes_room
        self.sweeps = 0
        self._open: dict[LogFile, None] = {}

    @property
    def open_count(self) -> int:
        """How many files are open."""
        return len(self._open)

    def opened(self, file: LogFile) -> None:
        """Note that a file has a descriptor now; close others if that exceeds the budget."""
        self._open[file] = None
        if len(self._open) > self.budget:
            self._evict(len(self._open) - self.budget, keep=file)

    def open(self, path: str, flags: int) -> int:
        """Open a file; if the process has no descriptor left, close half of the idle files first. OSError."""
        try:
            return self.files.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
        self._evict(len(self._open) // 2 + 1)
        return self.files.open(path, flags, 0o644)

    def closed(self, file: LogFile) -> None:
        """Note that a file has no descriptor any more."""
        self._open.pop(file, None)

    def sweep(self) -> Iterator[None]:
        """Close the files not used since the last sweep: an idle partition owns no descriptor. It yields whenever
        `CLOSED_PER_STEP` more are closed."""
        self.sweeps += 1
        closed = 0
        for file in list(self._open):
            if file.touched:
                file.touched = False
            elif file.users == 0 and file in self._open:  # perhaps closed between two steps
                file.retire()
                closed += 1
                if closed % CLOSED_PER_STEP == 0:
                    yield

    def close_all(self) -> None:
        """Close all files that are not in use, and the others when their last user is done."""
        for file in list(self._open):
            file.close()

    def _evict(self, excess: int, keep: LogFile | None = None) -> None:
        for file in list(self._open)[: 2 * len(self._open)]:
            if excess <= 0:
                return
            if file is keep or file.users:
                continue
            if file.touched:  # used lately: to the end of the queue
                file.touched = False
                self._open[file] = self._open.pop(file)
                continue
            file.retire()
            excess -= 1
        if excess > 0:  # all were used lately: close the oldest
            for file in [file for file in self._open if file is not keep and not file.users][:excess]:
                file.retire()


class HasFile(Protocol):
    """A segment."""

    def file_retired(self) -> None:
        """Its file was closed, because it was not used for a while."""


class LogFile:
    """One `.log` file: its descriptor while it is open (``fd``, else -1), and a count of its users.

    It is the `FileOwner` of the ranges read from it. ``segment`` is told when the cache closes the file because it was
    not used for a while. The file does not keep its segment, which is therefore freed at once when its log drops it.

    ``room_end``: the position at which `make_room` is called before more is written.
    """

    __slots__ = (
        "_cache",
        "_close_when_unused",
        "_has_room",
        "_room_sweep",
        "_segment",
        "fd",
        "path",
        "room_end",
        "touched",
        "users",
    )

    def __init__(self, cache: FileCache, path: str, segment: HasFile) -> None:
        self._cache = cache
        self.path = path
        self.fd = -1
        self.users = 0
        self.touched = False
        self._segment = weakref.ref(segment)
        self._close_when_unused = False
        self.room_end = 0
        self._room_sweep = -1  # the sweep before which the last `ROOM_BYTES` began
        self._has_room = False

    def descriptor(self, *, create: bool = False) -> int:
        """The descriptor; opens the file if it is closed. OSError, also if the file does not exist and ``create`` is
        not set."""
        self.touched = True
        if self.fd < 0:
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            self.fd = self._cache.open(self.path, flags)
            self._cache.opened(self)
        self._close_when_unused = False  # it is used again
        return self.fd

    def make_room(self, size: int) -> None:
        """The open file has ``size`` bytes, which is ``room_end`` or more: if it grows quickly, have the file system
        set aside room for the next `ROOM_BYTES`. Without it, ext4 looks up and reserves a block for each page that is
        written; with it, a batch of 128 KiB takes a fifth less time to write (docs/PERFORMANCE.md)."""
        cache = self._cache
        begun, self._room_sweep = self._room_sweep, cache.sweeps
        self.room_end = size + ROOM_BYTES
        if not cache.makes_room or begun < 0 or cache.sweeps - begun > 1:
            return
        try:
            cache.files.set_aside(self.fd, size, ROOM_BYTES)
            self._has_room = True
        except OSError:  # another file system, or a disk that is nearly full
            self.room_end = NEVER

    def give_back_room(self) -> None:
        """Give back the room that was set aside and not used: the file does not grow any more, or not for a while."""
        if self._has_room and self.fd >= 0:
            files = self._cache.files
            try:
                files.ftruncate(self.fd, files.size(self.fd))
            except OSError:
                return  # tried again when the file is closed
            self._forget_room()

    def _forget_room(self) -> None:
        self.room_end, self._room_sweep, self._has_room = 0, -1, False

    def retain(self) -> None:
        """Keep the file open until `release`."""
        self.users += 1

    def release(self) -> None:
        """The end of one use."""
        self.users -= 1
        if self._close_when_unused and self.users == 0:
            self._close_now()

    def retire(self) -> None:
        """Close a file that was not used for a while."""
        self.close()
        segment = self._segment()
        if segment is not None:
            segment.file_retired()

    def close(self) -> None:
        """Close the descriptor, now or when its last user is done."""
        if self.fd < 0:
            return
        if self.users:
            self._close_when_unused = True
            return
        self._close_now()

    def _close_now(self) -> None:
        self.give_back_room()
        self._forget_room()
        fd, self.fd = self.fd, -1
        self._close_when_unused = False
        self._cache.closed(self)
        if fd >= 0:
            self._cache.files.close(fd)
