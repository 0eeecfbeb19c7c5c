"""Accepting: one listening socket, and the bounds on how many connections there may be.

At `max.connections` nothing is accepted until a connection closes (clients wait in the backlog, as in Kafka). A new
connection from an address that has `max.connections.per.ip` is closed at once. When the process has no descriptor left,
accepting pauses instead of spinning. A connection beyond `max.connection.creation.rate` waits, and the listener with
it; one beyond the rate of its address is closed a little later, so that its client does not try again at once
(KIP-612). What lives elsewhere: the connections (`connection`), all listeners (`server`), the rates
(`kwire.quotas.connections`).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.net.addresses import host_and_port

if TYPE_CHECKING:
    from kwire.base.config import Endpoint
    from kwire.base.doors import Doors
    from kwire.base.limited_log import LimitedLog
    from kwire.base.logging import Logger
    from kwire.net.settings import NetSettings
    from kwire.quotas.connections import ConnectionRates

ACCEPTS_PER_TURN: Final = 8
PORTS_TRIED: Final = 16
"""How often a free port is picked that must be free for IPv4 and IPv6."""

_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})

PAUSE_S: Final = 0.5
"""Seconds without accepting after the system had no descriptor or buffer left."""


REFUSED_MAX: Final = 1000
"""Connections of throttled addresses that a listener holds until they are closed; more are closed at once."""


class ConnectionCounts:
    """How many connections there are, in all and per address."""

    def __init__(self, settings: NetSettings) -> None:
        self._settings = settings
        self._by_host: dict[str, int] = {}
        self.total = 0

    def full(self) -> bool:
        """Whether there are `max.connections` connections."""
        return self.total >= self._settings.max_connections

    def limit_of(self, host: str) -> int:
        """`max.connections.per.ip`, with its overrides."""
        return self._settings.max_connections_per_ip_overrides.get(host, self._settings.max_connections_per_ip)

    def enter(self, host: str) -> bool:
        """Count a new connection; False if its address has too many."""
        count = self._by_host.get(host, 0)
        if count >= self.limit_of(host):
            return False
        self._by_host[host] = count + 1
        self.total += 1
        return True

    def leave(self, host: str) -> None:
        """Count a closed connection."""
        self.total -= 1
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]


class BoundSocket(NamedTuple):
    """A socket that listens for a listener. Nothing is accepted yet: clients wait in its backlog."""

    endpoint: Endpoint
    socket: Any
    address: tuple[str, int]
    """The host and port it is bound to."""

    @classmethod
    def bind(cls, doors: Doors, settings: NetSettings, endpoint: Endpoint) -> list[BoundSocket]:
        """Bind a listener's sockets: one, or for `localhost` one for each loopback address, on the same port. Port 0
        picks a free one. OSError if the address cannot be bound."""
        for _ in range(PORTS_TRIED - 1):
            try:
                return cls._bind_all(doors, settings, endpoint)
            except OSError as error:  # the port that was free for IPv4 may be taken for IPv6
                if endpoint.port or error.errno != errno.EADDRINUSE:
                    raise
        return cls._bind_all(doors, settings, endpoint)

    @classmethod
    def _bind_all(cls, doors: Doors, settings: NetSettings, endpoint: Endpoint) -> list[BoundSocket]:
        bound: list[BoundSocket] = []
        port = endpoint.port
        for host in doors.sockets.bindable_hosts(endpoint.host):
            try:
                sock = doors.sockets.listen(host, port, settings.backlog, settings.receive_buffer_bytes)
                doors.sockets.prepare(sock, settings.send_buffer_bytes)
            except OSError as error:
                if bound and error.errno != errno.EADDRINUSE:
                    break  # this machine has no IPv6
                for other in bound:
                    other.socket.close()
                raise
            bound.append(cls(endpoint, sock, host_and_port(sock.getsockname())))
            port = bound[0].address[1]
        return bound

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.address[0] == "::1" or self.address[0].startswith("127.")


class Listener:
    """Accepts the connections of one listener. ``address``: the (host, port) it is bound to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: BoundSocket,
        *,
        counts: ConnectionCounts,
        accept: Callable[[Any], tuple[Any, Any]],
        rates: Callable[[], ConnectionRates],
        log: Logger,
        lines: LimitedLog,
        on_connection: Callable[[Listener, Any, tuple[str, int]], None],
    ) -> None:
        self._loop = loop
        self._socket = bound.socket
        self._fd: int = bound.socket.fileno()
        self._counts = counts
        self._accept = accept
        self._rates = rates
        self._held: tuple[Any, tuple[str, int]] | None = None  # the connection that waits
        self._refused: dict[Any, asyncio.TimerHandle] = {}
        self._log = log
        self._lines = lines
        self._on_connection = on_connection
        self._accepting = False
        self._pause: asyncio.TimerHandle | None = None
        self.name = bound.endpoint.listener
        self.address = bound.address
        self._is_wildcard = bound.address[0] in _WILDCARDS

    def start(self) -> None:
        """Accept connections, unless it does already or is closed."""
        if self._accepting or self._fd < 0 or self._pause is not None:
            return
        if self._held is not None:
            if self._counts.full():
                return
            held, self._held = self._held, None
            self._admit(*held)
        self._accepting = True
        self._loop.add_reader(self._fd, self._acceptable)

    def stop(self) -> None:
        """Stop accepting until `start`."""
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
                sock, address = self._accept(self._socket)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.stop()
                self._pause = self._loop.call_later(PAUSE_S, self._resume)
                self._log.warning("cannot accept", listener=self.name, error=str(error), pause_s=PAUSE_S)
                return
            throttle_ms = self._rates().accepted(self.name)
            if throttle_ms:
                self.stop()
                self._held = (sock, host_and_port(address))
                self._pause = self._loop.call_later(throttle_ms / 1000, self._resume)
                return
            self._admit(sock, host_and_port(address))

    def _admit(self, sock: Any, peer: tuple[str, int]) -> None:
        refused_ms = self._rates().refused_ms(self.name, peer[0])
        if refused_ms:
            self._refuse(sock, refused_ms)
            return
        if not self._counts.enter(peer[0]):
            most = self._counts.limit_of(peer[0])
            self._lines.info("too many connections from one address", listener=self.name, address=peer[0], max=most)
            sock.close()
            return
        try:
            self._on_connection(self, sock, peer)
        except OSError:  # the client closed it already
            self._counts.leave(peer[0])
            sock.close()

    def _refuse(self, sock: Any, after_ms: int) -> None:
        """Close a connection, later."""
        if len(self._refused) >= REFUSED_MAX:
            sock.close()
        else:
            self._refused[sock] = self._loop.call_later(after_ms / 1000, self._close_refused, sock)

    def _close_refused(self, sock: Any) -> None:
        del self._refused[sock]
        sock.close()

    def local_address(self, sock: Any) -> tuple[str, int]:
        """The address of an accepted socket."""
        return host_and_port(sock.getsockname()) if self._is_wildcard else self.address

    def _resume(self) -> None:
        self._pause = None
        self.start()

    def close(self) -> None:
        """Close the socket, and the connections that are not served yet."""
        self.stop()
        if self._held is not None:
            self._held[0].close()
            self._held = None
        for sock, timer in self._refused.items():
            timer.cancel()
            sock.close()
        self._refused.clear()
        if self._pause is not None:
            self._pause.cancel()
        if self._fd >= 0:
            self._fd = -1
            self._socket.close()
