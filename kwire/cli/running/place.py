"""Where ``kwire acl``, ``quota`` and ``user`` act: in a running cluster, or in a metadata store that no broker uses.

A cluster is named as for every other command (`kwire.cli.connection`), a store by ``--config``, ``--data-dir`` or
``--set``. If neither is named, it is the store that ``kwire start`` would use.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from kwire.cli import configuration, connection, fail, fail_with_file
from kwire.cli.connection.errors import UsageError
from kwire.cli.connection.options import named_cluster

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cli.connection.cluster import Cluster

R = TypeVar("R")
S = TypeVar("S")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name a running cluster, and those that name a store."""
    connection.add_arguments(parser)
    configuration.add_store_arguments(parser.add_argument_group("a cluster that is not running"))


def in_cluster(arguments: argparse.Namespace) -> bool:
    """Whether the command is about a running cluster. `CommandError` if that is not clear."""
    if arguments.config or arguments.data_dir or arguments.properties:
        if arguments.bootstrap_server is not None:
            raise connection.CommandError(
                "--bootstrap-server names a running cluster; --config, --data-dir and --set are for one that is not"
                " running"
            )
        return False
    if named_cluster(arguments):
        return True
    if arguments.command_config is not None or arguments.client_properties:
        raise connection.CommandError("client properties are for a running cluster: name it with --bootstrap-server")
    return False


@asynccontextmanager
async def opened(
    arguments: argparse.Namespace,
    in_cluster_: Callable[[Cluster], R],
    in_store: Callable[[KafkaConfig, Doors, bool], AbstractAsyncContextManager[S]],
) -> AsyncIterator[R | S]:
    """What the command is about. Only ``add`` creates a store. `CommandError`, StartError, ConfigError, OSError."""
    if in_cluster(arguments):
        async with connection.open_cluster(arguments) as cluster:
            yield in_cluster_(cluster)
        return
    from kwire.base.doors import Doors

    async with in_store(configuration.load(arguments), Doors(), arguments.action == "add") as found:
        yield found


def run(action: Callable[[argparse.Namespace], Awaitable[int]], arguments: argparse.Namespace) -> int:
    """The exit status of an action; what is wrong is said in one line."""
    from kwire.base.config import ConfigError
    from kwire.server.errors import StartError

    async def act() -> int:
        return await action(arguments)

    try:
        in_cluster(arguments)
        return asyncio.run(act())
    except UsageError as error:
        return fail(error, 2)
    except (ConfigError, StartError, connection.CommandError, ValueError) as error:
        return fail(error)
    except OSError as error:
        return fail_with_file(error)
