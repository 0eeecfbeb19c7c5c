"""Accepting: one listening socket, and the bounds on how many connections there may be.

At `max.connections` nothing is accepted until one closes (clients wait in the backlog, as with Kafka); an address
that has `max.connections.per.ip` is turned away at once. When the process runs out of descriptors, accepting pauses
instead of spinning. What lives elsewhere: the connections (`connection`), all listeners together (`server`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.net.addresses import host_and_port

if TYPE_CHECKING:
    from kwire.base.logging import Logger
    from kwire.net.settings import NetSettings

ACCEPTS_PER_TURN: Final = 64
PAUSE_S: Final = 0.5
"""How long accepting rests when the system has no descriptor or buffer left."""


class ConnectionCounts:
    """How many connections there are, in all and per address."""

    def __init__(self, settings: NetSettings) -> None:
        self._settings = settings
        self._by_host: dict[str, int] = {}
        self.total = 0

    def full(self) -> bool:
        """Whether `max.connections` is reached."""
        return self.total >= self._settings.max_connections

    def limit_of(self, host: str) -> int:
        """`max.connections.per.ip`, with its overrides."""
        return self._settings.max_connections_per_ip_overrides.get(host, self._settings.max_connections_per_ip)

    def enter(self, host: str) -> bool:
        """Count a connection in; False if its address has too many."""
        count = self._by_host.get(host, 0)
        if count >= self.limit_of(host):
            return False
        self._by_host[host] = count + 1
        self.total += 1
        return True

    def leave(self, host: str) -> None:
        """Count a connection out."""
        self.total -= 1
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]


class Listener:
    """A listening socket under its listener name. ``address``: the (host, port) it is bound to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        sock: Any,
        *,
        counts: ConnectionCounts,
        log: Logger,
        on_connection: Callable[[Listener, Any, tuple[str, int]], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._fd: int = sock.fileno()
        self._counts = counts
        self._log = log
        self._on_connection = on_connection
        self._accepting = False
        self._pause: asyncio.TimerHandle | None = None
        self.name = name
        self.address = host_and_port(sock.getsockname())

    def start(self) -> None:
        """Accept, unless that is going on or the listener is closed."""
        if not self._accepting and self._fd >= 0 and self._pause is None:
            self._accepting = True
            self._loop.add_reader(self._fd, self._acceptable)

    def stop(self) -> None:
        """Accept nothing until `start`."""
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._fd)

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._counts.full():
                self._log.warning("max.connections reached: accepting waits", listener=self.name)
                self.stop()
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.stop()
                self._pause = self._loop.call_later(PAUSE_S, self._resume)
                self._log.warning("cannot accept", listener=self.name, error=str(error), pause_s=PAUSE_S)
                return
            self._admit(sock, host_and_port(address))

    def _admit(self, sock: Any, peer: tuple[str, int]) -> None:
        if not self._counts.enter(peer[0]):
            self._log.info("too many connections from one address", address=peer[0], max=self._counts.limit_of(peer[0]))
            sock.close()
            return
        try:
            self._on_connection(self, sock, peer)
        except OSError:  # gone before it was looked at
            self._counts.leave(peer[0])
            sock.close()

    def _resume(self) -> None:
        self._pause = None
        self.start()

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        if self._pause is not None:
            self._pause.cancel()
        if self._fd >= 0:
            self._fd = -1
            self._socket.close()
