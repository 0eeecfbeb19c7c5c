"""The send queue of a connection: buffers and file ranges, sent as far as the socket accepts them.

Successive buffers are sent in one `sendmsg`; a file range is sent by `sendfile`, without being read. A socket that
accepts less than it is given is full, and is not used again until it is writable. A thread reads a range that is no
longer in the page cache before it is sent (`cold_ranges`). What lives elsewhere: the order of responses (`connection`).
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kwire.base import futures
from kwire.base.doors import WOULD_BLOCK
from kwire.base.file_range import FileRange
from kwire.log.common.cold_ranges import is_cached, read_in
from kwire.net.settings import IOV_LIMIT, SMALL_RANGE, Part

if TYPE_CHECKING:
    from kwire.base.doors import Doors

_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


def release_parts(parts: Iterable[Part]) -> None:
    """Release the file ranges among parts that will not be sent."""
    for part in parts:
        if type(part) is FileRange:
            part.release()


def _nothing() -> None:
    """What a closed queue does when its socket is writable."""


class Outgoing:
    """The send queue of one socket. ``size``: bytes in it."""

    __slots__ = (
        "_doors",
        "_fd",
        "_looked_at",
        "_loop",
        "_on_writable",
        "_queue",
        "_range_sent",
        "_reading",
        "_send",
        "_sendfile",
        "_sendmsg",
        "_waiting",
        "size",
    )

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
        self._range_sent = 0  # bytes of the first part that are sent, if it is a range
        self._waiting = False
        self._looked_at: FileRange | None = None  # the last range that was found or read into the cache
        self._reading: asyncio.Future[None] | None = None
        self.size = 0

    def add(self, parts: list[Part], size: int) -> None:
        """Queue the parts of a response, ``size`` bytes in all. They are not copied."""
        self.size += size
        if len(parts) == 1:
            self._queue.append(parts[0])
            return
        queue = self._queue
        for part in parts:
            if type(part) is FileRange and part.size <= SMALL_RANGE:
                part = self._read_small(part)
            queue.append(part)

    def add_buffer(self, response: bytes) -> None:
        """Queue a response that is one buffer."""
        self.size += len(response)
        self._queue.append(response)

    def _read_small(self, part: FileRange) -> bytes:
        data = self._doors.files.pread(part.fd, part.size, part.position)
        missing = part.size - len(data)
        part.release()
        if missing:
            raise EOFError(f"{part} ends {missing} bytes early")
        return data

    def flush(self) -> bool:
        """Send what the socket accepts now. Returns whether anything was sent. OSError if the connection is closed."""
        queue = self._queue
        before = self.size
        try:
            while queue:
                head = queue[0]
                if head.__class__ is FileRange:
                    if self._reading is not None:
                        return False
                    if head is not self._looked_at and self._is_cold(head):
                        break
                    all_sent = self._send_range(head)
                elif len(queue) == 1:
                    sent = self._send(head)
                    self.size -= sent
                    if sent < len(head):  # type: ignore[arg-type]
                        queue[0] = memoryview(head)[sent:]  # type: ignore[arg-type]
                        self._wait()
                        return True
                    queue.popleft()
                    break
                else:
                    all_sent = self._send_run()
                if not all_sent:
                    self._wait()
                    return True
        except WOULD_BLOCK:
            self._wait()
            return self.size != before
        if self._waiting:
            self._stop_waiting()
        return self.size != before

    def send_more(self) -> bool:
        """The socket is writable: send more of a range that has been begun, the usual case. Returns whether nothing
        else is to be done, since the socket is full again; `flush` does it, and meets a failure once more."""
        if not self._range_sent:
            return False
        try:
            return not self._send_range(self._queue[0])  # type: ignore[arg-type]
        except (OSError, EOFError):
            return False

    def _is_cold(self, part: FileRange) -> bool:
        """Whether a range has to be read from disk first; if so, the read is started."""
        self._looked_at = part
        files = self._doors.files
        if is_cached(files, part):
            return False
        self._reading = self._doors.executor.run(read_in, files, part.fd, part.position, part.size)
        self._reading.add_done_callback(self._was_read)
        return True

    def _was_read(self, future: asyncio.Future[None]) -> None:
        self._reading = None
        futures.ignore_failure(future)  # sending the range fails in the same way
        self._on_writable()

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._fd)

    def _send_run(self) -> bool:
        """Send the buffers at the front in one call. Returns whether all of them are sent."""
        queue = self._queue
        run: list[Any] = []
        flags = 0
        for part in queue:
            if type(part) is FileRange:
                flags = self._doors.sockets.MSG_MORE  # the few bytes before a range need no packet of their own
                break
            run.append(part)
            if len(run) == IOV_LIMIT:
                break
        sent = self._sendmsg(run, (), flags)
        self.size -= sent
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
        """Send some of the file range at the front. Returns whether all of it is sent."""
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
        """Read a piece and send it, where the system or the file system has no `sendfile`."""
        data = self._doors.files.pread(part.fd, min(part.size - done, 128 * 1024), part.position + done)
        return self._send(data) if data else 0

    def close(self) -> None:
        """Discard what was not sent. The connection is forgotten, so that its memory is free without a collection."""
        self._stop_waiting()
        self._on_writable = _nothing
        release_parts(self._queue)
        self._queue.clear()
        self._range_sent = self.size = 0
