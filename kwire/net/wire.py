"""What all connections of a broker share: one receive buffer, and the moment at which responses are sent.

Responses that become ready in a turn of the loop are sent at its end, and work that was put off until then is done
first. What lives elsewhere: one connection (`connection`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.base.buffers import has_views
from kwire.base.limited_log import LimitedLog
from kwire.net.large_frames import SpareBuffers
from kwire.net.settings import RECEIVE_BYTES, UNSENT_MAX, NetSettings

if TYPE_CHECKING:
    from kwire.base.doors import Doors
    from kwire.base.logging import Logger
    from kwire.net.handshakes import Handshakes
    from kwire.net.newcomers import Newcomers


BUFFERS_MAX: Final = 3
"""Receive buffers that are kept for when requests have no views of them any more."""


class Flushed(Protocol):
    """The part of a connection that is used here."""

    def turn_over(self) -> None:
        """All connections with bytes have been read: send the responses."""


class Wire:
    """What all connections of a broker share. ``lines``: log lines that clients cause.

    ``tick`` counts sweeps; a connection records it when bytes move."""

    __slots__ = (
        "_buffers",
        "_handshakes",
        "_newcomers",
        "_unsent",
        "doors",
        "last_read",
        "lines",
        "log",
        "loop",
        "on_close",
        "scratch",
        "settings",
        "spare",
        "tick",
        "work",
    )

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        doors: Doors,
        settings: NetSettings,
        log: Logger,
        on_close: Callable[[Any], None],
    ) -> None:
        self.loop = loop
        self.doors = doors
        self.settings = settings
        self.log = log
        self.lines = LimitedLog(log, doors.clock.monotonic)
        self.on_close = on_close
        # One receive buffer for all connections: an idle one needs none. None: requests may have views of it.
        self.scratch: memoryview | None = None
        self._buffers: list[bytearray] = []
        self.spare = SpareBuffers()
        self.tick = 0
        self.last_read: Flushed | None = None
        self._unsent: list[Flushed] = []
        self._handshakes: Handshakes | None = None
        self._newcomers: Newcomers | None = None
        self.work: Callable[[], None] | None = None  # put off until the responses of this turn are sent

    @property
    def newcomers(self) -> Newcomers:
        """What the connections share that are not admitted yet."""
        if self._newcomers is None:
            from kwire.net.newcomers import Newcomers

            self._newcomers = Newcomers(self.loop, self.doors.sockets.epoll, self.lines)
        return self._newcomers

    @property
    def handshakes(self) -> Handshakes:
        """What the TLS connections share."""
        if self._handshakes is None:
            from kwire.net.handshakes import Handshakes

            self._handshakes = Handshakes(self.loop, self.doors.clock.perf_counter)
        return self._handshakes

    def close(self) -> None:
        """All connections are closed."""
        if self._newcomers is not None:
            self._newcomers.close()
            self._newcomers = None

    def receive_buffer(self) -> memoryview:
        """Make ``scratch`` a buffer of which no request has a view. MemoryError."""
        buffers = self._buffers
        buffer = next((each for each in buffers if not has_views(each)), None)
        if buffer is None:
            buffer = bytearray(RECEIVE_BYTES)
            self._buffers = [buffer, *buffers[: BUFFERS_MAX - 1]]
        self.scratch = memoryview(buffer)
        return self.scratch

    def flush_soon(self, connection: Flushed) -> None:
        """Send a connection's responses once every connection that has bytes was read."""
        unsent = self._unsent
        if not unsent:
            self.loop.call_soon(self.flush)
        elif len(unsent) == UNSENT_MAX:
            self.flush()
            unsent = self._unsent
        unsent.append(connection)

    def do_work(self) -> None:
        """Do the work that was put off."""
        work, self.work = self.work, None
        if work is not None:
            work()

    def flush(self) -> None:
        """Send the responses of this turn."""
        self.do_work()
        unsent, self._unsent = self._unsent, []
        for connection in unsent:
            connection.turn_over()
