"""The server's side of one connection without a network: a loop and a socket that the campaign moves by hand.

What lives elsewhere: what is sent (`streams`), the rules (`campaigns.tls.__main__`).
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final, cast

from campaigns.logins import CLOCK, REGISTRY
from harness.services import services_with
from kwire.base import doors
from kwire.base.doors import Doors
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.metadata.image import ClusterImage
from kwire.handlers.context import INSECURE
from kwire.net.connection import Connection, ListenerSetup
from kwire.net.settings import NetSettings
from kwire.net.tls_connection import TlsConnection
from kwire.net.wire import Wire
from kwire.security.principals import ANONYMOUS
from kwire.server.authentication.settings import LoginSettings
from kwire.server.authentication.stage import Authentication


class Sockets(doors.Sockets):
    """Without epoll: the loop has all readers."""

    epoll = None


FD: Final = 5
DOORS: Final = Doors(clock=CLOCK, sockets=Sockets())
SERVICES: Final = services_with(
    doors=DOORS,
    metrics=MetricsRegistry(),
    advertised_apis=REGISTRY.advertised(),
    supported_features={},
    image_source=ClusterImage,
)
TURNS_MAX: Final = 5_000
"""Turns of the loop that one piece may cause."""


class BrokenRule(Exception):
    """The server's side did what it must not do."""


class Timer:
    """A call that is due later."""

    def __init__(self, due_s: float, callback: Any, arguments: tuple[Any, ...]) -> None:
        self.due_s = due_s
        self.callback: Any = callback
        self.arguments = arguments

    def cancel(self) -> None:
        """Do not call it."""
        self.callback = None


class Loop:
    """As much of an event loop as a connection uses, with a clock that the campaign sets."""

    def __init__(self) -> None:
        self.reader: Any = None
        self.writer: Any = None
        self.soon: deque[tuple[Any, tuple[Any, ...]]] = deque()
        self.timers: list[Timer] = []
        self.now_s = 0.0

    def add_reader(self, _fd: int, callback: Any) -> None:
        """See asyncio."""
        self.reader = callback

    def remove_reader(self, _fd: int) -> bool:
        """See asyncio."""
        self.reader, found = None, self.reader is not None
        return found

    def add_writer(self, _fd: int, callback: Any) -> None:
        """See asyncio."""
        self.writer = callback

    def remove_writer(self, _fd: int) -> bool:
        """See asyncio."""
        self.writer, found = None, self.writer is not None
        return found

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        """See asyncio."""
        self.soon.append((callback, arguments))

    def call_later(self, delay_s: float, callback: Any, *arguments: Any) -> Timer:
        """See asyncio."""
        timer = Timer(self.now_s + delay_s, callback, arguments)
        self.timers.append(timer)
        return timer

    def time(self) -> float:
        """See asyncio."""
        return self.now_s


class Log:
    """A log that notes errors only: a connection logs there what it did not expect."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def debug(self, *_: object, **__: object) -> None:
        """Nothing."""

    info = warning = debug

    def error(self, message: str, **_: object) -> None:
        """Keep the message."""
        import sys

        self.errors.append(f"{message}: {sys.exc_info()[1]!r}")

    exception = error


class Main:
    """The dispatcher after the login."""

    pipelined_keys: frozenset[int] = frozenset()
    services = SERVICES
    registry = REGISTRY

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames

    def client_of(self, connection: Connection, make: Any) -> Any:
        """The client of a connection."""
        client = make(ANONYMOUS, "host", connection.local)
        client.security = INSECURE
        return client

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Note it, and answer something."""
        self._frames.append(bytes(frame))
        connection.send([plain_frame(b"answer")], 10)


class Stage:
    """The login's dispatcher. ``frames``: all that it and `Main` have got."""

    pipelined_keys: frozenset[int] = frozenset()

    def __init__(self, settings: LoginSettings) -> None:
        self.frames: list[bytes] = []
        self.settings = settings
        self._login = Authentication(cast(Any, Main(self.frames)), "SASL_SSL", settings, 1 << 20)

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Pass a frame to the login."""
        self.frames.append(bytes(frame))
        self._login.dispatch(connection, frame)


class Socket:
    """The server's end: ``incoming`` pieces, then the end if ``ended``; at most ``room`` bytes are accepted."""

    def __init__(self) -> None:
        self.incoming: deque[memoryview] = deque()
        self.ended = False
        self.reset = False
        self.sent = bytearray()
        self.taken = 0
        self.room = 1 << 30
        self.closed = False

    def fileno(self) -> int:
        """See `socket.socket`."""
        return FD

    def recv_into(self, buffer: memoryview) -> int:
        """See `socket.socket`."""
        if not self.incoming:
            if self.reset:
                raise ConnectionResetError
            if self.ended:
                return 0
            raise BlockingIOError
        piece = self.incoming.popleft()
        count = min(len(piece), len(buffer))
        buffer[:count] = piece[:count]
        if count < len(piece):
            self.incoming.appendleft(piece[count:])
        return count

    def send(self, data: bytes) -> int:
        """See `socket.socket`."""
        if self.reset:
            raise BrokenPipeError
        if not self.room:
            raise BlockingIOError
        count = min(len(data), self.room)
        self.sent += data[:count]
        self.room -= count
        return count

    def sendmsg(self, buffers: list[bytes], _ancillary: object = (), _flags: int = 0) -> int:
        """See `socket.socket`."""
        return self.send(b"".join(buffers))

    def close(self) -> None:
        """See `socket.socket`."""
        self.closed = True

    @property
    def readable(self) -> bool:
        """Whether `recv_into` does not block."""
        return bool(self.incoming) or self.ended or self.reset


class Line:
    """One connection. ``seconds`` of virtual time pass by `wait` only."""

    def __init__(self, tls: Any, stage: Stage) -> None:
        self.loop, self.socket, self.log, self.stage = Loop(), Socket(), Log(), stage
        stage.frames.clear()
        self.closings = 0
        wire = _wire(self)
        setup = ListenerSetup(cast(Any, stage), stage.settings.receive_max_bytes, lambda: tls, login=True)
        self.connection = TlsConnection(wire, self.socket, setup, "SASL_SSL", ("peer", 1), ("host", 2))
        self.connection.start()

    def deliver(self, data: bytes) -> None:
        """Let a piece arrive, and the server do all it can do at once."""
        if data:
            self.socket.incoming.append(memoryview(data))
        self.run()

    def end(self, reset: bool) -> None:
        """The client closes its side."""
        self.socket.ended, self.socket.reset = not reset, reset
        self.run()

    def run(self) -> None:
        """Let the server do all it can do without time passing. `BrokenRule` if it does not stop."""
        loop, sock = self.loop, self.socket
        for _ in range(TURNS_MAX):
            if loop.soon:
                for _ in range(len(loop.soon)):
                    callback, arguments = loop.soon.popleft()
                    callback(*arguments)
            elif loop.reader is not None and sock.readable:
                loop.reader()
            elif loop.writer is not None and (sock.room or sock.reset):
                loop.writer()
            else:
                return
            if sock.closed:
                continue
        raise BrokenRule("the server does not come to rest")

    def wait(self) -> None:
        """Let time pass until no timer is left."""
        loop = self.loop
        for _ in range(100):
            timers = [each for each in loop.timers if each.callback is not None]
            if not timers:
                return
            timer = min(timers, key=lambda each: each.due_s)
            loop.now_s = max(loop.now_s, timer.due_s)
            callback, timer.callback = timer.callback, None
            callback(*timer.arguments)
            self.run()
        raise BrokenRule("timers without end")

    def take(self) -> bytes:
        """What the server has sent since the last call."""
        data = bytes(self.socket.sent[self.socket.taken :])
        self.socket.taken = len(self.socket.sent)
        return data


_SETTINGS: Final = NetSettings()


class _Shared:
    """What the connections of one process share: large buffers."""

    wire: Wire | None = None


def _wire(line: Line) -> Wire:
    def closed(_: Connection) -> None:
        line.closings += 1

    wire = _Shared.wire
    if wire is None:
        wire = _Shared.wire = Wire(
            loop=cast(Any, line.loop), doors=DOORS, settings=_SETTINGS, log=cast(Any, line.log), on_close=closed
        )
    wire.loop, wire.log, wire.on_close, wire.last_read = cast(Any, line.loop), cast(Any, line.log), closed, None
    wire._unsent.clear()
    wire.handshakes._loop = cast(Any, line.loop)
    wire.handshakes._queue.clear()
    wire._newcomers = None
    return wire


def plain_frame(body: bytes) -> bytes:
    """A frame with its size."""
    return struct.pack(">i", len(body)) + body
