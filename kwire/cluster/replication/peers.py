"""The other brokers, as this one calls them: by id, over the inter-broker listener.

One connection per broker for requests, kept open; a lost one is opened anew with the next call. Nothing is tried again
here: the caller knows whether that is safe. A broker whose host refuses the connection, and took one before, is not
there any more: ``on_refused`` is told, for stores that would otherwise wait for the end of its session.

What lives elsewhere: frames (`kwire.net.client`), following a leader's log (`replica_fetcher`, which has connections of
its own).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kwire.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.base.doors import Doors
    from kwire.cluster.metadata.image import BrokerImage, ClusterImage
    from kwire.codec.message import Message
    from kwire.net.client import ClientConnection


class PeerUnavailable(Exception):
    """The broker is not registered, cannot be reached, or the connection ended before it answered."""


class Peers:
    """Connections to other brokers. ``listener``: `inter.broker.listener.name`. ``on_refused(broker)``: its process
    must be gone."""

    def __init__(
        self,
        doors: Doors,
        image: Callable[[], ClusterImage],
        broker_id: int,
        listener: str,
        on_refused: Callable[[BrokerImage], None] = lambda _broker: None,
    ) -> None:
        self._doors = doors
        self._image = image
        self._client_id = f"broker-{broker_id}"
        self._listener = listener
        self._connections: dict[int, tuple[int, ClientConnection]] = {}  # broker epoch and connection by id
        self._opening: dict[int, asyncio.Lock] = {}
        self._reached: dict[int, None] = {}
        self._on_refused = on_refused

    async def connect(self, broker_id: int, client_id: str = "") -> ClientConnection:
        """A new connection, of the caller's own. `PeerUnavailable`."""
        from kwire.net.client import ClientConnection  # a broker without others never needs it

        broker = self._find(broker_id)
        endpoint = broker.endpoints.get(self._listener) or next(iter(broker.endpoints.values()))
        try:
            connection = await ClientConnection.connect(
                self._doors, endpoint.host, endpoint.port, client_id or self._client_id
            )
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and broker_id in self._reached:
                del self._reached[broker_id]  # one refusal counts, until it has been reached again
                if not broker.leaving:
                    self._on_refused(broker)
            raise PeerUnavailable(f"broker {broker_id} at {endpoint.host}:{endpoint.port}: {error}") from error
        self._reached[broker_id] = None
        return connection

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
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {broker_id} does not answer.") from None

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
                if known[0] == epoch and not known[1].closed:
                    return known[1]
                known[1].close()
            connection = await self.connect(broker_id)
            self._connections[broker_id] = (epoch, connection)
            return connection
