"""`run_at`: something done at a cluster by a process that is not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.options import SinkOptions

T = TypeVar("T")


def run_at(options: SinkOptions, action: Callable[[Cluster], Awaitable[T]]) -> T:
    """The outcome of something done at the cluster. `SinkError` for what the cluster refuses, too."""

    async def act() -> T:
        properties = {"client.id": "kwire-spark", **options.properties}
        cluster = Cluster.of(options.bootstrap, properties, options.timeout_s)
        try:
            await cluster.connect()
            return await action(cluster)
        finally:
            cluster.close()

    try:
        return asyncio.run(act())
    except CommandError as error:
        raise SinkError(str(error)) from None
