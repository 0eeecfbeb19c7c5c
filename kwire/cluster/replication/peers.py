"""`Peers`: requests to other brokers, by broker id, over the inter-broker listener.

One connection per broker is kept open for requests; if it is lost, the next call opens another one. Calls are not
retried here, because only the caller can tell whether that is safe. If a broker that was reachable before refuses a
connection, its process is dead: ``on_refused`` is called, for stores that would otherwise wait for its session to end.

What lives elsewhere: frames (`kwire.net.client`), fetching from a leader (`replication.fetcher`, which has connections
of its own).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kwire.base.addresses import Address
from kwire.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kwire.base.doors import Doors
    from kwire.cluster.connector import Connector
    from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
    from kwire.codec.message import Message
    from kwire.net.client import ClientConnection


class PeerUnavailable(Exception):
    """The broker is not live, cannot be reached, or closed the connection before it responded."""


class Peers:
    """Connections to other brokers. ``listener``: `inter.broker.listener.name`. ``on_refused(broker)`` is called if a
    broker's process must be dead. ``connector``: opens connections to a listener with TLS or a login; None: it has
    neither."""

    def __init__(
        self,
        doors: Doors,
        image: Callable[[], ClusterImage],
        broker_id: int,
        listener: str,
        on_refused: Callable[[BrokerImage], None],
        connector: Connector | None = None,
    ) -> None:
        self._connector = connector
        self._doors = doors
        self._image = image
        self._client_id = f"broker-{broker_id}"
        self._listener = listener
        self._connections: dict[int, tuple[int, ClientConnection]] = {}  # broker epoch and connection by id
        self._opening: dict[int, asyncio.Lock] = {}
        self._reached: dict[int, None] = {}
        self._on_refused = on_refused

    async def connect(self, broker_id: int, client_id: str = "") -> ClientConnection:
        """A new connection that belongs to the caller. `PeerUnavailable`."""
        broker = self._find(broker_id)
        endpoint = self._endpoint(broker)
        try:
            connection = await self._open(endpoint.host, endpoint.port, client_id or self._client_id)
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and broker_id in self._reached:
                del self._reached[broker_id]  # only the first refusal counts, until the broker is reached again
                if not broker.leaving:
                    self._on_refused(broker)
            raise PeerUnavailable(f"broker {broker_id} at {Address(endpoint.host, endpoint.port)}: {error}") from error
        self._reached[broker_id] = None
        return connection

    def _endpoint(self, broker: BrokerImage) -> Endpoint:
        found = broker.endpoints.get(self._listener)
        if found is not None:
            return found
        if self._connector is not None:  # another listener may be less protected
            raise PeerUnavailable(f"broker {broker.id} has no listener {self._listener}")
        return next(iter(broker.endpoints.values()))

    def _open(self, host: str, port: int, client_id: str) -> Awaitable[ClientConnection]:
        from kwire.net.client import ClientConnection  # a single broker never needs it

        if self._connector is not None:
            return self._connector.connect(host, port, client_id)
        return ClientConnection.connect(self._doors, host, port, client_id)

    async def call(self, broker_id: int, request: Message, version: int, *, timeout_s: float) -> Any:
        """Send a request and wait for the response. `PeerUnavailable`; KafkaError(REQUEST_TIMED_OUT)."""
        from kwire.net.client import ConnectionLost

        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connection(broker_id)
                return await connection.call(request, version)
        except ConnectionLost:
            raise PeerUnavailable(f"broker {broker_id} closed the connection") from None
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {broker_id} does not respond.") from None

    def close(self) -> None:
        """Close all connections."""
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _find(self, broker_id: int) -> BrokerImage:
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            raise PeerUnavailable(f"broker {broker_id} is not registered")
        return broker

    async def _connection(self, broker_id: int) -> ClientConnection:
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            epoch = self._find(broker_id).epoch
            known = self._connections.get(broker_id)
            if known is not None:
                if known[0] == epoch and not known[1].closed and not known[1].is_due:
                    return known[1]
                known[1].close()
            connection = await self.connect(broker_id)
            self._connections[broker_id] = (epoch, connection)
            return connection
