"""Connections whose handshake or login is not complete: bounds on what all of them together cost others.

- **A deadline.** All have the same time. One timer suffices for them: the oldest are due first.
- **Time.** Bytes of strangers are read in portions of `EVENTS_PER_TURN` connections, so that 10,000 of them that send
  or close at the same moment do not delay the requests of others. Those that are late are closed in such portions.
  The sockets are in an epoll instance of their own, which the loop watches like one socket. Where there is none
  (simulation, macOS), the loop watches each of them.
- **Memory.** An unfinished message keeps at most `HELD_MAX` bytes in all, those of connections with less than
  `FREE_BYTES` not counted, which suffice for an ordinary ClientHello or login. If it is more, the connections that have
  kept bytes for the longest time are closed.

This module is imported with the first connection to a listener with TLS or SASL.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kwire.base.limited_log import LimitedLog

EVENTS_PER_TURN: Final = 8
"""Connections that are read or late in a turn of the loop; one takes some 20 us, or 60 us if it is closed."""

HELD_MAX: Final = 16 * 1024 * 1024
FREE_BYTES: Final = 2 * 1024

_EARLY_S: Final = 0.01
"""A connection that is due so soon is late: timers of uvloop may be a little early."""

_READABLE: Final = 1  # EPOLLIN


class Newcomer(Protocol):
    """A connection, as far as it matters here."""

    id: str
    listener: str

    def close(self) -> None:
        """Close it. It then calls `Newcomers.release`."""


class Newcomers:
    """The connections of one loop that are not admitted yet. ``epoll`` makes an epoll instance; None: there is none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoll: Callable[[], Any] | None, log: LimitedLog) -> None:
        self._loop = loop
        self._log = log
        self._epoll = epoll() if epoll is not None else None
        self._watched = False
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._due_s: dict[Newcomer, float] = {}  # by the loop's clock; the oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._held: dict[Newcomer, int] = {}  # the oldest first
        self.held_bytes = 0

    # -- a deadline ---------------------------------------------------------------------------------------------------

    def limit(self, connection: Newcomer, max_s: float) -> None:
        """Close a new connection if it is not released within this time, which is the same for all."""
        self._due_s[connection] = self._loop.time() + max_s
        if self._timer is None:
            self._timer = self._loop.call_later(max_s, self._close_late)

    def _close_late(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for connection, due_s in list(islice(self._due_s.items(), EVENTS_PER_TURN)):
            if due_s - now_s > _EARLY_S:
                break
            event = "closing connection: handshake or login took too long"
            self._log.info(event, listener=connection.listener, connection=connection.id)
            connection.close()
        for due_s in self._due_s.values():  # of the oldest that is left
            self._timer = self._loop.call_later(max(due_s - now_s, 0), self._close_late)
            break

    # -- time ---------------------------------------------------------------------------------------------------------

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call the callback when the socket is readable. It must not be watched already."""
        if self._epoll is None:
            self._loop.add_reader(fd, callback)
            return
        self._epoll.register(fd, _READABLE)
        if not self._watched:  # from now on: with uvloop, to watch it anew takes seven system calls
            self._watched = True
            self._loop.add_reader(self._epoll.fileno(), self._turn)
        self._callbacks[fd] = callback

    def remove_reader(self, fd: int) -> None:
        """Do so no longer. Harmless if the socket is not watched."""
        if self._epoll is None:
            self._loop.remove_reader(fd)
        elif self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _turn(self) -> None:
        assert self._epoll is not None
        for fd, _ in self._epoll.poll(0, EVENTS_PER_TURN):
            callback = self._callbacks.get(fd)
            if callback is not None:  # None: an earlier callback of this turn has closed it
                callback()

    def close(self) -> None:
        """Stop the timer and close the epoll instance, when all connections are closed."""
        if self._timer is not None:
            self._timer.cancel()
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    # -- memory -------------------------------------------------------------------------------------------------------

    def hold(self, connection: Newcomer, size: int) -> None:
        """A connection keeps so many bytes. Closes the oldest connections, perhaps this one, if all keep too many."""
        if size <= FREE_BYTES:
            if connection in self._held:
                self.held_bytes -= self._held.pop(connection)
            return
        self.held_bytes += size - self._held.get(connection, 0)
        self._held[connection] = size
        while self.held_bytes > HELD_MAX:
            oldest = next(iter(self._held))
            reason = "too many bytes of unfinished handshakes and logins"
            self._log.info("closing connection", listener=oldest.listener, connection=oldest.id, reason=reason)
            oldest.close()

    def release(self, connection: Newcomer) -> None:
        """A connection is admitted or closed: its time and what it keeps are not limited any more."""
        self._due_s.pop(connection, None)
        if connection in self._held:
            self.held_bytes -= self._held.pop(connection)
