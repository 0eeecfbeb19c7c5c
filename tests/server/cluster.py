"""Several brokers in the test's own process, on one store in memory that outlives them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from harness.raw_client import RawClient
from kwire.base.doors import Doors
from kwire.cluster.store.memory import MemoryStore
from kwire.server.broker import Broker


class Cluster:
    """Brokers by their number; ``features`` limits what one supports (`kwire.test.supported.features`)."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._store = MemoryStore()
        self.brokers: dict[int, Broker] = {}

    def broker(self, node_id: int, features: str | None = None, **properties: Any) -> Broker:
        """One that is not started. ``properties`` as `Broker` takes them."""
        return Broker(
            store=self._store,
            node_id=node_id,
            log_dir=self._directory / str(node_id),
            listeners="PLAINTEXT://127.0.0.1:0",
            kwire_metadata_dir=self._directory / "unused",
            kwire_test_supported_features=features,
            **properties,
        )

    async def start(self, node_id: int, features: str | None = None, **properties: Any) -> RawClient:
        """Start one; a client of it."""
        broker = self.brokers[node_id] = self.broker(node_id, features, **properties)
        await self._stack.enter_async_context(broker)
        return await self._stack.enter_async_context(
            await RawClient.connect(Doors(), "127.0.0.1", self.port(node_id), "test")
        )

    def port(self, node_id: int) -> int:
        port: int = self.brokers[node_id].net.listeners[0].address[1]
        return port
