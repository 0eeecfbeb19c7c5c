"""A connection of a command to a running cluster, and what its failures are called.

Any broker will do: requests that only the controller can decide are forwarded by the others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import gaierror
from typing import TYPE_CHECKING, Any, Final

from kwire.base.addresses import parse_address
from kwire.base.errors import ErrorCode
from kwire.cli import configuration

if TYPE_CHECKING:
    import argparse

    from kwire.cluster.connector import Connector
    from kwire.codec.message import Message
    from kwire.net.client import ClientConnection

TIMEOUT_S: Final = 10.0
"""Seconds for a command's requests, unless ``--timeout`` says otherwise."""


class ClusterError(Exception):
    """The cluster cannot be reached, or refuses a request. The message is one line for the user."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command for a running cluster, beside those for a store that no broker uses."""
    address_help = "a broker of a running cluster; several with commas between them are tried in turn"
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help=address_help)
    configuration.add_client_arguments(parser)
    timeout_help = f"for the requests to a running cluster (default: {TIMEOUT_S:.0f})"
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=TIMEOUT_S, help=timeout_help)


def check_arguments(arguments: argparse.Namespace) -> None:
    """ValueError if a command names a running cluster and a store, or client properties without a cluster."""
    if arguments.bootstrap_server is None:
        if arguments.command_config is not None:
            raise ValueError("--command-config is for a running cluster: name it with --bootstrap-server")
        return
    if arguments.config or arguments.data_dir or arguments.properties:
        raise ValueError(
            "--bootstrap-server names a running cluster; --config, --data-dir and --set are for one that is not running"
        )


class ClusterClient:
    """One connection to a broker. ``address`` is for messages."""

    def __init__(self, connection: ClientConnection, address: str, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self.address = address

    async def call(self, request: Message, version: int) -> Any:
        """The response to a request. `ClusterError` if there is none."""
        from kwire.net.client import ConnectionLost

        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._connection.call(request, version)
        except ConnectionLost:
            raise ClusterError(f"{self.address}: the broker closed the connection without a response") from None
        except TimeoutError:
            raise ClusterError(f"{self.address}: no answer within {self._timeout_s:g} s") from None


@asynccontextmanager
async def cluster_client(
    addresses: str, command_config: str | None, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[ClusterClient]:
    """A client of the first broker that can be reached, of addresses with commas between them; logged in as the file
    ``command_config`` says. `ClusterError`."""
    from kwire.base.doors import Doors
    from kwire.cluster.connector import Connector

    try:
        connector = Connector(Doors(), configuration.load_client_security(command_config))
        parsed = [(text.strip(), parse_address(text.strip())) for text in addresses.split(",")]
    except ValueError as error:
        raise ClusterError(str(error)) from None
    for number, (text, address) in enumerate(parsed, 1):
        try:
            connection = await _connect(connector, address.host or "localhost", address.port, timeout_s)
        except ClusterError as error:
            if number == len(parsed):
                raise ClusterError(f"{text}: {error}") from None
            continue
        try:
            yield ClusterClient(connection, text, timeout_s)
        finally:
            connection.close()
        return


async def _connect(connector: Connector, host: str, port: int, timeout_s: float) -> ClientConnection:
    try:
        async with asyncio.timeout(timeout_s):
            return await connector.connect(host, port, "kwire")
    except TimeoutError as error:
        raise ClusterError(error.strerror or f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise ClusterError(_reason(error)) from None
    except ValueError as error:  # a key store or trust store that cannot be used
        raise ClusterError(str(error)) from None


def _reason(error: OSError) -> str:
    """Why no connection came about; asyncio's own text has the address once more."""
    if error.errno is not None and error.errno > 0 and not isinstance(error, gaierror):
        return os.strerror(error.errno)
    return str(error.strerror or error)


def check(error_code: int, message: str | None) -> None:
    """Raise `ClusterError` for what a broker has answered, unless it is no error."""
    if error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # Apache Kafka's message is its request's fields
        message = "this login may not do that; ACLs on the cluster decide"
    if error_code:
        try:
            name = ErrorCode(error_code).name
        except ValueError:
            name = f"error {error_code}"
        raise ClusterError(f"{name}: {message}" if message else name)


__all__ = ["ClusterClient", "ClusterError", "add_arguments", "check", "check_arguments", "cluster_client"]
