"""All listeners and connections of a broker: opened, swept for idle ones, drained and closed.

What lives elsewhere: one connection (`connection`), accepting (`listener`), requests (`kwire.server.dispatch`).
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from kwire.net.connection import Connection, ListenerSetup
from kwire.net.listener import BoundSocket, ConnectionCounts, Listener
from kwire.net.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kwire.base.doors import Doors
    from kwire.base.logging import Logger
    from kwire.net.settings import NetSettings
    from kwire.quotas.connections import ConnectionRates

SWEEPS: Final = 8
"""Sweeps in one `connections.max.idle.ms`: a connection may idle an eighth longer than that."""

SWEPT_PER_TURN: Final = 2000
CLOSED_PER_TURN: Final = 50
"""Connections that are looked at, and of which are closed, in one turn of the loop: a millisecond."""


class NetServer:
    """The network side of a broker, on bound sockets. Use: `start`, ..., `stop_accepting`, `drain`, `close`.
    ``setups``: how the connections of each listener begin, by the listener's name. ``rates``: called with
    the first connection; None has no limits. ``on_disconnect`` is told the id of each connection that has closed."""

    def __init__(
        self,
        doors: Doors,
        settings: NetSettings,
        sockets: Sequence[BoundSocket],
        setups: Mapping[str, ListenerSetup],
        log: Logger,
        rates: Callable[[], ConnectionRates] | None = None,
        on_disconnect: Callable[[str], object] = str,
    ) -> None:
        rates = rates or cache(partial(_without_limits, doors))
        self._doors = doors
        self._settings = settings
        self._log = log
        self._on_disconnect = on_disconnect
        self._loop = asyncio.get_running_loop()
        self._setups = setups
        self._wire = Wire(loop=self._loop, doors=doors, settings=settings, log=log, on_close=self._closed)
        self._counts = ConnectionCounts(settings)
        self._sweep: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._idle_ticks = SWEEPS
        self.listeners = [
            Listener(
                self._loop,
                bound,
                counts=self._counts,
                accept=doors.sockets.accept,
                rates=rates,
                log=log,
                lines=self._wire.lines,
                on_connection=self._connected,
            )
            for bound in sockets
        ]
        self.connections: dict[Connection, None] = {}  # a dict keeps the order, a set would not
        self.accepted = 0

    def start(self) -> None:
        """Accept connections, and close idle ones."""
        for listener in self.listeners:
            listener.start()
        if self._settings.connections_max_idle_ms > 0:
            self._schedule_sweep()

    def _connected(self, listener: Listener, sock: Any, peer: tuple[str, int]) -> None:
        local = listener.local_address(sock)
        setup = self._setups[listener.name]
        kind = Connection if setup.tls is None else _tls_connection()
        connection = kind(self._wire, sock, setup, listener.name, peer, local)
        self.connections[connection] = None
        self.accepted += 1
        connection.start()

    def _closed(self, connection: Connection) -> None:
        del self.connections[connection]
        self._on_disconnect(connection.id)
        was_full = self._counts.full()
        self._counts.leave(connection.peer[0])
        if self._drained is not None:
            if not self.connections and not self._drained.done():
                self._drained.set_result(None)
        elif was_full:
            for listener in self.listeners:
                listener.start()

    # -- idle connections ---------------------------------------------------------------------------------------------

    def _schedule_sweep(self) -> None:
        delay_s = self._settings.connections_max_idle_ms / SWEEPS / 1000
        self._sweep = self._loop.call_later(delay_s, self._sweep_idle)

    def _sweep_idle(self) -> None:
        wire = self._wire
        wire.tick += 1
        self._schedule_sweep()
        self._sweep_some(list(self.connections), wire.tick - self._idle_ticks)

    def _sweep_some(self, left: list[Connection], oldest: int) -> None:
        """Close the idle ones of some connections, and go on in the next turn of the loop."""
        closed = 0
        for _ in range(min(SWEPT_PER_TURN, len(left))):
            connection = left.pop()
            if connection.active_tick < oldest and not connection.pending:  # a pending request is not idleness
                self._log.debug("closing idle connection", connection=connection.id)
                connection.close()
                closed += 1
                if closed == CLOSED_PER_TURN:
                    break
        if left:
            self._loop.call_soon(self._sweep_some, left, oldest)

    # -- the end ----------------------------------------------------------------------------------------------------

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay open."""
        for listener in self.listeners:
            listener.close()

    async def drain(self, timeout_s: float) -> None:
        """Start no more requests, and wait until the pending responses are sent, for at most ``timeout_s``."""
        self._drained = self._loop.create_future()
        for connection in list(self.connections):
            connection.drain()
        for connection in list(self.connections):
            connection.cancel_pending()
        if self.connections:
            timer = self._loop.call_later(timeout_s, self._give_up)
            await self._drained
            timer.cancel()

    def _give_up(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._log.warning("closing connections that do not read their responses", count=len(self.connections))
            self._drained.set_result(None)

    def close_connections(self) -> None:
        """Close all connections at once; new ones are accepted."""
        for connection in list(self.connections):
            connection.close()

    def close(self) -> None:
        """Close everything at once."""
        if self._sweep is not None:
            self._sweep.cancel()
        self.stop_accepting()
        self.close_connections()
        self._wire.close()


@cache
def _tls_connection() -> type[Connection]:
    """`TlsConnection`, imported with the first of them."""
    from kwire.net.tls_connection import TlsConnection

    return TlsConnection


def _without_limits(doors: Doors) -> ConnectionRates:
    from kwire.quotas.connections import ConnectionRates

    return ConnectionRates(doors.clock.monotonic)
