"""The frame of a command for a running cluster: connect, do it, and say in one line what went wrong.

SIGTERM (that of `timeout`, of service managers) ends a command as Ctrl-C does: a member leaves its group, `produce`
says what is written.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from kwire.cli import fail
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, UsageError
from kwire.cli.connection.options import open_cluster

TERMINATED: Final = 128 + signal.SIGTERM  # as shells have it


def run(arguments: argparse.Namespace, action: Callable[[Cluster, argparse.Namespace], Awaitable[int]]) -> int:
    """The exit status of an action on the cluster that the options name."""
    terminated = False

    def terminate(task: asyncio.Task[int]) -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    async def act() -> int:
        task = asyncio.current_task()
        assert task is not None
        with suppress(RuntimeError):  # not the main thread, which has the signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate, task)
        async with open_cluster(arguments) as cluster:
            return await action(cluster, arguments)

    try:
        status = asyncio.run(act())
    except CommandError as error:
        return fail(error)
    except UsageError as error:
        return fail(error, 2)
    except asyncio.CancelledError:
        if not terminated:
            raise
    return TERMINATED if terminated else status
