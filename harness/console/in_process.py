"""Consoles for tests: the application in the test's own process, and a client that its `Access` lets in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.console.asgi_client import AsgiClient
from kwire.base.addresses import Address
from kwire.cli.connection.cluster import Cluster
from kwire.cli.records.writing.encoding import Rows
from kwire.cli.records.writing.sending import Sender, Settings
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.console.access import Access
from kwire.console.app import Console
from kwire.console.app import Settings as ConsoleSettings
from kwire.console.clusters import Clusters, Target
from kwire.server.broker import Broker

TIMEOUT_S = 30.0
TOKEN = "the-token-of-the-tests"
HOST = "127.0.0.1:9021"
HEADERS = {"host": HOST, "authorization": f"Bearer {TOKEN}"}
CHANGING = {**HEADERS, "origin": f"http://{HOST}", "content-type": "application/json"}


@asynccontextmanager
async def console(
    *bootstraps: str,
    allow_changes: bool = False,
    timeout_s: float = 10.0,
    properties: Mapping[str, str] | None = None,
    **access: Any,
) -> AsyncGenerator[AsgiClient]:
    """A client of a console of clusters, which are called c0, c1 and so on. ``properties``: client properties."""
    targets = [Target(f"c{number}", each, properties or {}, timeout_s) for number, each in enumerate(bootstraps)]
    clusters = Clusters(targets, read_only=not allow_changes)
    allowed = Access(TOKEN, Address("127.0.0.1", 9021), **access)
    made = Console(clusters, allowed, ConsoleSettings(allow_changes))
    try:
        yield AsgiClient(made.app(), CHANGING)
    finally:
        made.close()


async def statuses(client: AsgiClient) -> list[Any]:
    """The clusters, once it is known of each whether it is there."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            found: list[Any] = (await client.get("/api/clusters")).json()
            if all(each["status"] != "connecting" for each in found):
                return found


@asynccontextmanager
async def broker(directory: Path, **properties: Any) -> AsyncGenerator[str]:
    """The address of a broker in this process."""
    async with Broker(log_dir=str(directory), listeners="PLAINTEXT://127.0.0.1:0", **properties) as started:
        yield started.bootstrap_servers


async def write(
    bootstrap: str, topic: str, partition: int, *batches: Rows, partitions: int = 1, compression: int = 0
) -> None:
    """Write batches to a partition of a topic, which is created if it is not there."""
    cluster = Cluster.of(bootstrap, {}, TIMEOUT_S)
    try:
        creation = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        await cluster.call(CreateTopicsRequest(topics=[creation], timeout_ms=int(TIMEOUT_S * 1000)))
        sender = await Sender.open(cluster, Settings(topic, -1, compression, TIMEOUT_S), idempotent=False)
        for each in batches:
            await sender.send({partition: each})
    finally:
        cluster.close()
