"""`run_at`: something done at a cluster by a process that is not asynchronous, for the source and the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from kwire.cli.connection.cluster import Cluster

T = TypeVar("T")

CLIENT_ID: Final = "kwire-spark"
"""The client id, unless the options name another."""


def run_at(
    bootstrap: str, properties: Mapping[str, str], timeout_s: float, action: Callable[[Cluster], Awaitable[T]]
) -> T:
    """The outcome of something done at the cluster. CommandError for what the cluster refuses, too."""

    async def act() -> T:
        cluster = Cluster.of(bootstrap, {"client.id": CLIENT_ID, **properties}, timeout_s)
        try:
            await cluster.connect()
            return await action(cluster)
        finally:
            cluster.close()

    return asyncio.run(act())
