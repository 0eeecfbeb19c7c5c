"""The doors: a broker reaches clock, files, sockets, threads, randomness and child processes through these objects.

They are attributes of one `Doors`, which every part that needs one is given. Where a call is on a hot path, the real
door's attribute *is* the operating system's function (`Files.pread`, `Sockets.sendfile`), not a wrapper. The simulation
(`harness.simulation`) builds another `Doors`, whose functions work on a virtual disk and network. Timers and tasks come
from the running asyncio loop, which the simulation replaces as a whole.

A lint rule (pyproject.toml) bans time, random, threading, socket, open and the like elsewhere in the broker, but not in
`kwire.cli` and `kwire.testing`, which run around a broker. Some I/O does not use the doors: log lines, SQLite and
ZooKeeper's client in the metadata stores, the control socket of tests. File descriptors are plain integers, so that
`pwrite` and `sendfile` need no object around them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import random as _random
import select
import socket as _socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, ParamSpec, TypeVar, cast

from kwire.base.processes.helpers import Processes

P = ParamSpec("P")
T = TypeVar("T")

WOULD_BLOCK = (BlockingIOError, InterruptedError)
"""Raised by a call on a non-blocking socket that must be repeated when the loop reports the socket as ready."""

_EXT4 = 0xEF53
"""The first field of `struct statfs` on ext4."""
_STATFS_BYTES = 256
_KEEP_SIZE = 1
"""`FALLOC_FL_KEEP_SIZE`."""


class Clock:
    """``time_ms()``: wall clock, milliseconds since 1970. ``monotonic()``: seconds, never going back; the same
    scale as the time of asyncio's loop. ``thread_time()``: seconds of processor time of the calling thread."""

    __slots__ = ("monotonic", "perf_counter", "thread_time", "time_ms")

    def __init__(
        self,
        time_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
        perf_counter: Callable[[], float] = time.perf_counter,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self.time_ms = time_ms
        self.monotonic = monotonic
        self.perf_counter = perf_counter
        self.thread_time = thread_time


class Files:
    """The file system. Paths are strings; descriptors are integers; every failure is an OSError."""

    open: Callable[..., int] = staticmethod(os.open)  # (path, flags, mode=0o777) -> fd
    close: Callable[[int], None] = staticmethod(os.close)
    pread: Callable[[int, int, int], bytes] = staticmethod(os.pread)  # (fd, size, offset)
    preadv: Callable[..., int] = staticmethod(os.preadv)  # (fd, buffers, offset, flags=0) -> bytes read
    RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)  # a flag of preadv: BlockingIOError instead of waiting; 0: unknown
    pwrite: Callable[[int, Any, int], int] = staticmethod(os.pwrite)  # (fd, buffer, offset) -> bytes written
    pwritev: Callable[..., int] = staticmethod(os.pwritev)  # (fd, buffers, offset) -> bytes written
    fsync: Callable[[int], None] = staticmethod(os.fsync)
    ftruncate: Callable[[int, int], None] = staticmethod(os.ftruncate)
    stat: Callable[[str], os.stat_result] = staticmethod(os.stat)
    exists: Callable[[str], bool] = staticmethod(os.path.exists)
    is_dir: Callable[[str], bool] = staticmethod(os.path.isdir)
    replace: Callable[[str, str], None] = staticmethod(os.replace)
    unlink: Callable[[str], None] = staticmethod(os.unlink)
    chmod: Callable[[str, int], None] = staticmethod(os.chmod)
    utime: Callable[..., None] = staticmethod(os.utime)  # (path, ns=(accessed, modified))

    def set_aside(self, fd: int, position: int, size: int) -> None:
        """Have the file system set room aside for ``size`` bytes of a file from a position on; its length stays the
        same. `ftruncate` gives back what was not used. OSError where there is no such thing, or it is not worth while:
        XFS does it by itself, and tmpfs would use the memory at once."""
        import ctypes  # late: few logs grow so quickly

        system = ctypes.CDLL(None, use_errno=True)
        facts = ctypes.create_string_buffer(_STATFS_BYTES)
        if sys.platform != "linux" or sys.maxsize < 2**32 or system.fstatfs(ctypes.c_int(fd), facts):
            raise OSError(errno.EOPNOTSUPP, "only on Linux")
        if int.from_bytes(facts.raw[:8], sys.byteorder) != _EXT4:
            raise OSError(errno.EOPNOTSUPP, "only on ext4")
        position_and_size = ctypes.c_int64(position), ctypes.c_int64(size)
        if system.fallocate(ctypes.c_int(fd), ctypes.c_int(_KEEP_SIZE), *position_and_size):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def size(self, fd: int) -> int:
        """Length in bytes of an open file."""
        return os.fstat(fd).st_size

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted: no decision may depend on the order in which a file system lists them."""
        return sorted(os.listdir(path))

    def makedirs(self, path: str) -> None:
        """Create a directory and its parents, as far as they do not exist."""
        os.makedirs(path, exist_ok=True)

    def rmtree(self, path: str) -> None:
        """Remove a directory with everything in it."""
        try:
            for name in os.listdir(path):
                os.unlink(f"{path}/{name}")
            os.rmdir(path)
        except (IsADirectoryError, PermissionError):  # there are directories in it; a log has none
            import shutil  # imported late: it imports all compression modules

            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        """Sync a directory: renames and new names in it survive a power loss then."""
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        """The whole of a (small) file."""
        with open(path, "rb") as file:
            return file.read()

    def read_regular(self, path: str, max_bytes: int) -> bytes:
        """The whole of a regular file of at most so many bytes; OSError. Never waits for a FIFO or a device."""
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it has been replaced meanwhile
                raise OSError(errno.EINVAL, "not a regular file", path)
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", path)
        return data

    @contextlib.contextmanager
    def as_path(self, data: bytes) -> Iterator[str]:
        """A path under which secret bytes can be read for a while, for libraries that want a file.

        On Linux the bytes are in memory only; elsewhere in a temporary file that nobody else may read.
        """
        if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
            with open(os.memfd_create("kwire"), "wb", buffering=0) as file:
                file.write(data)
                yield f"/proc/self/fd/{file.fileno()}"
            return
        import tempfile

        with tempfile.NamedTemporaryFile() as temporary:
            temporary.write(data)
            temporary.flush()
            yield temporary.name

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a small file: after a crash it has either the old or the new content, never a mixture.

        Blocks for two syncs: call it through `Executor.run` where clients wait.
        """
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> int | None:
        """Take an exclusive lock on a file, which is created. Returns a descriptor that holds the lock until it is
        closed, or None if the lock is held already, by another process or by this one."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        return fd

    def disk_usage(self, path: str) -> tuple[int, int]:
        """(total bytes, usable bytes) of the volume that holds a path."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


class Sockets:
    """Creates sockets. `sendfile` moves a file's bytes to a socket without reading them, `epoll` makes an epoll
    instance; each is None where there is none."""

    socket: Callable[..., Any] = staticmethod(_socket.socket)
    getaddrinfo: Callable[..., Any] = staticmethod(_socket.getaddrinfo)
    # (socket fd, file fd, offset, count) -> bytes sent; None where sendfile does not work as in Linux
    sendfile: Callable[[int, int, int, int], int] | None = (
        staticmethod(os.sendfile) if sys.platform == "linux" else None
    )
    MSG_MORE: int = getattr(_socket, "MSG_MORE", 0)
    epoll: Callable[[], Any] | None = getattr(select, "epoll", None)

    def bindable_hosts(self, host: str) -> tuple[str, ...]:
        """The hosts to bind for the host of a listener: `localhost` is the loopback address of IPv4 and that of IPv6,
        because clients try either first."""
        return ("127.0.0.1", "::1") if host.lower() == "localhost" else (host,)

    def listen(self, host: str, port: int, backlog: int, receive_buffer_bytes: int) -> Any:
        """A non-blocking listening socket on the first address of a host name; "" is every address, of IPv6 and IPv4
        alike where there is IPv6. A receive buffer size of -1 is the system's choice."""
        family, _, _, _, address = self._bindable(host, port)
        sock = self.socket(family, _socket.SOCK_STREAM)
        try:
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            if family == _socket.AF_INET6:
                sock.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 0 if host == "" else 1)
            if receive_buffer_bytes > 0:  # accepted sockets inherit it
                sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF, receive_buffer_bytes)
            sock.bind(address)
            sock.listen(backlog)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return sock

    def _bindable(self, host: str, port: int) -> Any:
        name = host.encode() if host.isascii() else host  # a str is encoded by a codec that takes 1 ms to import
        found = self.getaddrinfo(name or None, port, type=_socket.SOCK_STREAM, flags=_socket.AI_PASSIVE)
        if host == "":
            found.sort(key=lambda info: info[0] != _socket.AF_INET6)  # an IPv6 socket accepts both
            if found[0][0] == _socket.AF_INET6 and not _ipv6_works():
                found.reverse()
        return found[0]

    def accept(self, listening: Any) -> tuple[Any, Any]:
        """The next connection of a listening socket, non-blocking, and its address. It has that socket's other options:
        see `prepare`. BlockingIOError if there is none; OSError."""
        fd, address = listening._accept()  # `accept` looks up and converts family and type: a third of its time
        sock = _socket.SocketType(-1, _socket.SOCK_STREAM, 0, fd)
        sock.setblocking(False)
        return sock, address

    async def connect(self, host: str, port: int) -> Any:
        """A non-blocking socket connected to the first address that accepts. OSError if none does."""
        loop = asyncio.get_running_loop()
        failure: OSError = OSError(errno.EADDRNOTAVAIL, f"no address for {host}")
        for family, _, _, _, address in await loop.getaddrinfo(host, port, type=_socket.SOCK_STREAM):
            sock = self.socket(family, _socket.SOCK_STREAM)
            try:
                self.prepare(sock, -1)
                await loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure

    def prepare(self, sock: Any, send_buffer_bytes: int) -> None:
        """Make a socket non-blocking, without Nagle's delay; a buffer size of -1 is the system's choice. Those that a
        listening socket accepts inherit its options."""
        sock.setblocking(False)
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
        if send_buffer_bytes > 0:
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, send_buffer_bytes)


def _ipv6_works() -> bool:
    if not _socket.has_ipv6:
        return False
    try:
        with _socket.socket(_socket.AF_INET6, _socket.SOCK_STREAM) as sock:
            sock.bind(("::", 0))
    except OSError:
        return False
    return True


class Executor:
    """Threads for calls that release the GIL for their whole length (fsync, large reads, CRC and compression of large
    buffers). Do not run computations in Python here: they stop the loop (docs/ARCHITECTURE.md)."""

    def __init__(self, threads: int = 4) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._threads = threads

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call a function on a thread; the future belongs to the running loop."""
        if self._pool is None:  # an idle broker has no threads
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="kwire-io")
        call = (lambda: function(*args, **kwargs)) if kwargs else function
        return asyncio.get_running_loop().run_in_executor(self._pool, call, *(() if kwargs else args))

    def run_apart(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """`run` on a thread of its own for a call that may hang, as of a server elsewhere: `close` does not wait for
        it, and the process ends without it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, result))

        def call() -> None:
            result: T | None = None
            failure: Exception | None = None
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, failure)

        Thread(target=call, name="kwire-apart", daemon=True).start()
        return future

    def close(self) -> None:
        """Wait for running calls and end the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


@dataclass(frozen=True, slots=True)
class Doors:
    """All doors together. ``Doors()`` leads to the operating system."""

    clock: Clock = field(default_factory=Clock)
    files: Files = field(default_factory=Files)
    sockets: Sockets = field(default_factory=Sockets)
    executor: Executor = field(default_factory=Executor)
    random: _random.Random = field(default_factory=_random.SystemRandom)
    processes: Processes | None = field(default_factory=Processes)  # None: work is done inline
