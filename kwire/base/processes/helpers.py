"""Helper processes: a low-priority child of the same Python for work on records that would block the event loop.

One request at a time goes to the child and one response comes back, over its standard input and output, pickled with
their length in front: both ends run the same code, and no other process can write to the pipes. `HelperProcess` is the
broker's side, `serve` the child's. The child ends when its input does, when it is killed, and when its parent has
ended: it must not write into a directory that another process has locked since. What is too large for a pipe goes
through memory that both share (`HelperProcess.area`).

The types of requests and responses are the caller's, and must be importable by both sides.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Generic, TypeVar

from kwire.base.processes.priority import yield_to_others

Request = TypeVar("Request")
Response = TypeVar("Response")

_SIZE = Struct(">I")
_READ_BYTES = 1 << 16
_PARENT = "KWIRE_HELPER_OF"
"""The environment variable with the parent's process id."""

_AREA = "KWIRE_HELPER_AREA"
"""The environment variable with the descriptor of the shared memory."""

MESSAGE_BYTES_MAX = 256 << 20


class HelperDied(Exception):
    """The child ended, or was killed, before it responded."""


class HelperProcess(Generic[Request, Response]):
    """A child that runs ``python -m module``, which calls `serve`. One event loop uses it, one call at a time. OSError
    if it cannot be started. ``area``: the descriptor of an empty file in memory that both can read and write, if
    ``shares`` is true, otherwise None."""

    def __init__(self, module: str, *, shares: bool = False) -> None:
        import subprocess  # imported late: a broker with nothing to clean needs neither
        from pathlib import Path

        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), _PARENT: str(os.getpid())}
        self.area = _shared_memory() if shares else None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment if self.area is None else {**environment, _AREA: str(self.area)},
                pass_fds=() if self.area is None else (self.area,),
                start_new_session=True,  # a Ctrl-C at the terminal is for the broker
            )
        except BaseException:
            self._close_area()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to_child, self._from_child = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to_child, False)
        os.set_blocking(self._from_child, False)
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._response: asyncio.Future[Response] | None = None
        self.pid = self._process.pid

    async def call(self, request: Request, bytes_per_second: float = 0.0) -> Response:
        """Send a request and wait for the response. The child reads and writes no more than ``bytes_per_second``; 0 is
        no limit. HelperDied."""
        loop = asyncio.get_running_loop()
        self._unsent = memoryview(_framed((request, bytes_per_second)))
        self._response = loop.create_future()
        loop.add_reader(self._from_child, self._on_readable)
        self._send()
        try:
            return await self._response
        finally:
            self._response = None
            loop.remove_reader(self._from_child)
            loop.remove_writer(self._to_child)

    def _send(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._to_child, self._unsent) :]
        except BlockingIOError:
            asyncio.get_running_loop().add_writer(self._to_child, self._send)
            return
        except OSError as error:
            self._fail(f"it accepts no request: {error.strerror}")
        asyncio.get_running_loop().remove_writer(self._to_child)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._from_child, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._fail("it ended")
            return
        received = self._received
        received += data
        if len(received) < _SIZE.size:
            return
        (size,) = _SIZE.unpack_from(received)
        if len(received) >= _SIZE.size + size and self._response is not None and not self._response.done():
            from pickle import loads  # late, as above

            self._response.set_result(loads(received[_SIZE.size : _SIZE.size + size]))
            del received[: _SIZE.size + size]

    def _fail(self, why: str) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(HelperDied(f"helper process {self.pid}: {why}"))

    def kill(self) -> None:
        """Kill the child; a call under way raises HelperDied."""
        self._process.kill()
        self._fail("it was killed")

    def close(self) -> int:
        """End the child after the last call and wait for it; blocks. Returns its exit status."""
        self._close_area()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            return self._process.wait(1.0)
        except Exception:  # it is busy, and its result is no longer needed
            self._process.kill()
            return self._process.wait()

    def _close_area(self) -> None:
        area, self.area = self.area, None
        if area is not None:
            os.close(area)


class Processes:
    """Starts helper processes."""

    def start(self, module: str, *, shares: bool = False) -> HelperProcess[Any, Any]:
        """A child that runs ``python -m module``, with shared memory if wanted. OSError."""
        return HelperProcess(module, shares=shares)


def shared_area() -> int:
    """In the child: the descriptor of the memory that it shares with its parent."""
    return int(os.environ[_AREA])


def _shared_memory() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kwire-helper")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def serve(
    work: Callable[[Request], Generator[int, None, Response]], *, niceness: int = 10, yields: bool = False
) -> None:
    """The child's main loop: respond to requests until the input ends.

    ``work`` handles one request: it yields the bytes that it has read and written since its last step, and returns the
    response. ``yields``: `yield_to_others`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = int(os.environ.get(_PARENT, os.getppid()))
    _die_with_parent()
    if os.getppid() != parent:  # it ended while this process was starting: no signal will come
        os._exit(1)
    os.nice(niceness)
    if yields:
        yield_to_others()
    try:
        _respond_to_all(work, parent)
    except BrokenPipeError:  # the parent has ended
        os._exit(1)


def _respond_to_all(work: Callable[[Request], Generator[int, None, Response]], parent: int) -> None:
    from pickle import loads

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = source.read(_SIZE.size)
        if len(head) < _SIZE.size:
            return
        (size,) = _SIZE.unpack(head)
        if size > MESSAGE_BYTES_MAX:
            return
        request, bytes_per_second = loads(source.read(size))
        sink.write(_framed(_throttled(work(request), bytes_per_second, parent)))
        sink.flush()


def _framed(message: object) -> bytes:
    from pickle import dumps

    data = dumps(message)
    return _SIZE.pack(len(data)) + data


def _throttled(steps: Generator[int, None, Response], bytes_per_second: float, parent: int) -> Response:
    begin, done = time.monotonic(), 0
    try:
        while True:
            done += next(steps)
            if os.getppid() != parent:
                os._exit(1)
            if bytes_per_second > 0:
                time.sleep(max(begin + done / bytes_per_second - time.monotonic(), 0.0))
    except StopIteration as end:
        response: Response = end.value
        return response


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends (Linux); elsewhere the checks between steps do it."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
