"""Helper processes: a niced child of the same Python for work on records that would hold up the loop.

One request at a time travels to the child and one answer back, as JSON with a length in front, over its standard input
and output. `HelperProcess` is the broker's side, `serve` the child's. The child ends when its input does, when it is
killed, and when its parent is gone: it must not write into a directory that another process has taken over.

What the requests mean is the caller's business.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from struct import Struct
from typing import Any

Message = dict[str, Any]
Work = Callable[[Message], Generator[int, None, Message]]
"""Does what a request asks for; yields the bytes it has read and written from time to time; returns the answer."""

_SIZE = Struct(">I")
_READ_BYTES = 1 << 16
_PARENT = "KWIRE_HELPER_OF"
"""The environment variable that tells the child its parent's pid."""

MESSAGE_BYTES_MAX = 256 << 20


class HelperDied(Exception):
    """The child ended, or was killed, before it answered."""


class HelperProcess:
    """A child that runs ``python -m module``, which calls `serve`. To be used from one event loop, one call at a
    time. OSError if it cannot be started."""

    def __init__(self, module: str) -> None:
        import subprocess  # late: a broker that has nothing to clean does not need it

        root = str(Path(__file__).resolve().parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), _PARENT: str(os.getpid())},
            start_new_session=True,  # a Ctrl-C at the terminal is for the broker
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to_child, self._from_child = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to_child, False)
        os.set_blocking(self._from_child, False)
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._answer: asyncio.Future[Message] | None = None
        self.pid = self._process.pid

    async def call(self, request: Message) -> Message:
        """The child's answer to a request. HelperDied."""
        loop = asyncio.get_running_loop()
        data = json.dumps(request).encode()
        self._unsent = memoryview(_SIZE.pack(len(data)) + data)
        self._answer = loop.create_future()
        loop.add_reader(self._from_child, self._on_readable)
        self._send()
        try:
            return await self._answer
        finally:
            self._answer = None
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
            self._fail(f"it takes no request: {error.strerror}")
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
        if len(received) >= _SIZE.size + size and self._answer is not None and not self._answer.done():
            self._answer.set_result(json.loads(received[_SIZE.size : _SIZE.size + size]))
            del received[: _SIZE.size + size]

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(HelperDied(f"helper process {self.pid}: {why}"))

    def kill(self) -> None:
        """End the child at once, whatever it does; a call under way raises HelperDied."""
        self._process.kill()
        self._fail("it was killed")

    def close(self) -> int:
        """End the child and wait for it: for a thread, after the last call. Its exit status."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            return self._process.wait(1.0)
        except Exception:  # it is busy: whatever it does is not wanted any more
            self._process.kill()
            return self._process.wait()


class Processes:
    """Starts helper processes."""

    def start(self, module: str) -> HelperProcess:
        """A child that runs ``python -m module``. OSError."""
        return HelperProcess(module)


def serve(work: Work, *, niceness: int = 10) -> None:
    """The child's main loop: answer requests until the input ends. A request's ``bytes_per_second`` holds its work
    back to that rate."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = int(os.environ.get(_PARENT, os.getppid()))
    _die_with_parent()
    if os.getppid() != parent:  # it ended while this process was starting, so that nobody tells
        os._exit(1)
    os.nice(niceness)
    try:
        _answer_all(work, parent)
    except BrokenPipeError:  # as above, somewhere later
        os._exit(1)


def _answer_all(work: Work, parent: int) -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = source.read(_SIZE.size)
        if len(head) < _SIZE.size:
            return
        (size,) = _SIZE.unpack(head)
        if size > MESSAGE_BYTES_MAX:
            return
        request = json.loads(source.read(size))
        answer = _throttled(work(request), float(request.get("bytes_per_second") or 0.0), parent)
        data = json.dumps(answer).encode()
        sink.write(_SIZE.pack(len(data)) + data)
        sink.flush()


def _throttled(steps: Generator[int, None, Message], bytes_per_second: float, parent: int) -> Message:
    begin, done = time.monotonic(), 0
    try:
        while True:
            done += next(steps)
            if os.getppid() != parent:
                os._exit(1)
            if bytes_per_second > 0:
                time.sleep(max(begin + done / bytes_per_second - time.monotonic(), 0.0))
    except StopIteration as end:
        answer: Message = end.value
        return answer


def _die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends (Linux); elsewhere the checks between steps must do."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
