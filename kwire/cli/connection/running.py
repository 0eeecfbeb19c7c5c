"""The frame of a command for a running cluster: connect, do it, and say in one line what went wrong."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from kwire.cli import fail
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.options import open_cluster


def run(arguments: argparse.Namespace, action: Callable[[Cluster, argparse.Namespace], Awaitable[int]]) -> int:
    """The exit status of an action on the cluster that the options name."""

    async def act() -> int:
        async with open_cluster(arguments) as cluster:
            return await action(cluster, arguments)

    try:
        return asyncio.run(act())
    except CommandError as error:
        return fail(error)
