"""A broker in the test's own process, on a free port, with its metadata in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.doors import Doors
from kwire.cluster.store.memory import MemoryStore
from kwire.handlers.api import Api
from kwire.server.broker import Broker
from tests.server.cluster import Cluster


class Brokers:
    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack

    async def start(self, **properties: Any) -> Broker:
        given = {"log_dir": self._directory, "listeners": "PLAINTEXT://127.0.0.1:0", **properties}
        return await self._stack.enter_async_context(Broker(store=MemoryStore(), **given))

    async def connect(self, broker: Broker, host: str = "127.0.0.1", client_id: str | None = "test") -> RawClient:
        port = broker.net.listeners[0].address[1]
        return await self._stack.enter_async_context(await RawClient.connect(Doors(), host, port, client_id))


def serve(broker: Broker, api: Api) -> None:
    """Put an API of the test's own in the place of the broker's."""
    broker.registry.replace(api)
    broker.dispatcher._routes.clear()


async def closed(client: RawClient) -> bool:
    """Wait until the broker has closed the connection."""
    async with asyncio.timeout(PATIENCE_S):
        while not client.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return True


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        yield Brokers(tmp_path / "data", stack)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        yield Cluster(tmp_path / "cluster", stack)
