"""What a connection has yet to send: a queue of buffers and file ranges, moved as far as the socket takes them.

Buffers that follow each other leave in one `sendmsg`; a file range leaves by `sendfile`, without being read. A socket
that takes less than it is given is full: nobody asks it again before it says that it is writable. A range that has left
the file cache is read in by a thread before it is sent (`cold_ranges`). What lives elsewhere: the order of answers
(`connection`).
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kwire.base import futures
from kwire.base.file_range import FileRange
from kwire.net.cold_ranges import is_cached, read_in
from kwire.net.settings import IOV_LIMIT, SMALL_RANGE, Part

if TYPE_CHECKING:
    from kwire.base.doors import Doors

_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


def release_parts(parts: Iterable[Part]) -> None:
    """Give back the file ranges among parts that will not be sent."""
    for part in parts:
        if type(part) is FileRange:
            part.release()


class Outgoing:
    """The send queue of one socket. ``size``: bytes in it."""

    __slots__ = ("_doors", "_fd", "_looked_at", "_loop", "_on_writable", "_queue", "_range_sent", "_reading", "_send",
                 "_sendfile", "_sendmsg", "_waiting", "size")  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, doors: Doors, sock: Any, on_writable: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._doors = doors
        self._fd: int = sock.fileno()
        self._send: Callable[[Any], int] = sock.send
        self._sendmsg: Callable[..., int] = sock.sendmsg
        self._sendfile = doors.sockets.sendfile
        self._on_writable = on_writable
        self._queue: deque[Part] = deque()
        self._range_sent = 0  # bytes of the first part that are gone, if it is a range
        self._waiting = False
        self._looked_at: FileRange | None = None  # is in the cache, or was read in
        self._reading: asyncio.Future[None] | None = None
        self.size = 0

    def add(self, parts: list[Part], size: int) -> None:
        """Queue the parts of an answer, ``size`` bytes together. They are not copied."""
        self.size += size
        if len(parts) == 1:
            self._queue.append(parts[0])
            return
        for part in parts:
            if type(part) is FileRange and part.size <= SMALL_RANGE:
                part = self._read_small(part)
            self._queue.append(part)

    def _read_small(self, part: FileRange) -> bytes:
        data = self._doors.files.pread(part.fd, part.size, part.position)
        missing = part.size - len(data)
        part.release()
        if missing:
            raise EOFError(f"{part} ends {missing} bytes early")
        return data

    def flush(self) -> bool:
        """Send what the socket takes now; whether anything was sent. OSError when the connection is gone."""
        if self._reading is not None:
            return False
        queue = self._queue
        before = self.size
        try:
            while queue:
                head = queue[0]
                if type(head) is FileRange:
                    if head is not self._looked_at and self._is_cold(head):
                        break
                    all_sent = self._send_range(head)
                elif len(queue) == 1:
                    all_sent = self._send_one(head)  # type: ignore[arg-type]
                else:
                    all_sent = self._send_run()
                if not all_sent:
                    self._wait()
                    return True
        except (BlockingIOError, InterruptedError):
            self._wait()
            return self.size != before
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._fd)
        return self.size != before

    def _is_cold(self, part: FileRange) -> bool:
        """Whether a range has to be read from the disk first, which is begun then."""
        self._looked_at = part
        files = self._doors.files
        if is_cached(files, part):
            return False
        self._reading = self._doors.executor.run(read_in, files, part.fd, part.position, part.size)
        self._reading.add_done_callback(self._was_read)
        return True

    def _was_read(self, future: asyncio.Future[None]) -> None:
        self._reading = None
        futures.heed(future)  # whoever sends the range meets a failure again
        self._on_writable()

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _send_one(self, head: bytes | memoryview) -> bool:
        """Send the only buffer; whether all of it is gone."""
        sent = self._send(head)
        self.size -= sent
        if sent == len(head):
            self._queue.popleft()
            return True
        self._queue[0] = memoryview(head)[sent:]
        return False

    def _send_run(self) -> bool:
        """Send the buffers at the front in one call; whether all of them are gone."""
        run: list[Any] = []
        flags = 0
        for part in self._queue:
            if type(part) is FileRange:
                flags = self._doors.sockets.MSG_MORE  # no packet of its own for the few bytes before a range
                break
            run.append(part)
            if len(run) == IOV_LIMIT:
                break
        sent = self._sendmsg(run, (), flags)
        self.size -= sent
        queue = self._queue
        for part in run:
            length = len(part)
            if sent < length:
                if sent:
                    queue[0] = memoryview(part)[sent:]
                return False
            sent -= length
            queue.popleft()
        return True

    def _send_range(self, part: FileRange) -> bool:
        """Send some of the file range at the front; whether all of it is gone."""
        done = self._range_sent
        size = part.size - done
        try:
            if self._sendfile is None:
                sent = self._send_read(part, done)
            else:
                sent = self._sendfile(self._fd, part.fd, part.position + done, size)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            sent = self._send_read(part, done)
        if not sent:
            raise EOFError(f"{part} ends {size} bytes early")
        self.size -= sent
        done += sent
        if done == part.size:
            self._range_sent = 0
            self._looked_at = None
            self._queue.popleft()
            part.release()
            return True
        self._range_sent = done
        return False

    def _send_read(self, part: FileRange, done: int) -> int:
        """Some systems and file systems have no `sendfile`: read a piece and send it."""
        data = self._doors.files.pread(part.fd, min(part.size - done, 128 * 1024), part.position + done)
        return self._send(data) if data else 0

    def close(self) -> None:
        """Forget what was not sent."""
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._fd)
        release_parts(self._queue)
        self._queue.clear()
        self.size = 0
