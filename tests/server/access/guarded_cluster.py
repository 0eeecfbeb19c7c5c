"""Brokers with an authorizer in the test's own process: a listener of their own, and one at which clients log in."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from harness.raw_client import RawClient
from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.server.broker import Broker

INTERNAL, CLIENTS = 0, 1
"""The listeners, by their place."""
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class GuardedCluster:
    """The first broker that is started is the controller. Who connects to INTERNAL is ANONYMOUS, a super user; the
    users alice, bob and root log in to CLIENTS, and root is a super user."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._store = MemoryStore()
        self.brokers: dict[int, Broker] = {}

    async def start(self, node_id: int, **properties: str) -> Broker:
        """Start a broker."""
        users = " ".join(f'user_{name}="{name}"' for name in ("alice", "bob", "root"))
        config = KafkaConfig(
            {
                "node.id": str(node_id),
                "log.dir": str(self._directory / str(node_id)),
                "kwire.metadata.dir": str(self._directory / "unused"),
                "listeners": "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
                "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
                "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": f"{_MODULE} {users};",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:root",
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )
        broker = self.brokers[node_id] = Broker(config, store=self._store)
        await self._stack.enter_async_context(broker)
        return broker

    async def connect(self, node_id: int, listener: int = INTERNAL) -> RawClient:
        """A connection that has not logged in."""
        port = self.brokers[node_id].net.listeners[listener].address[1]
        return await self._stack.enter_async_context(await RawClient.connect(Doors(), "127.0.0.1", port, "test"))

    async def log_in(self, node_id: int, user: str) -> RawClient:
        """A user's connection."""
        client = await self.connect(node_id, CLIENTS)
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        response = await client.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode()), 2)
        assert response.error_code == 0
        return client
