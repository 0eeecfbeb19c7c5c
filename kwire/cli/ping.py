"""``kwire ping [HOST:PORT]``: check whether a Kafka broker responds. For health checks and for scripts that wait.

It sends ApiVersions, which every broker handles before anything else. The request is a constant and no codec is
imported, because a health check runs every few seconds. A listener with TLS is reached with ``--tls``, which does not
check its certificate: that is enough to see that a broker responds, before any login. With client properties
(``--command-config``, ``-X``, the environment, a profile) it checks certificates and logs in, like a client.
"""

from __future__ import annotations

import argparse
import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.addresses import parse_address
from kwire.cli import connection, fail, output
from kwire.cli.connection.options import Settings, settings

if TYPE_CHECKING:
    from kwire.security.client import ClientSecurity

ATTEMPT_S: Final = 5.0
"""Seconds for one attempt, unless ``--timeout`` says otherwise."""
_OF_SECURITY: Final = ("security.", "sasl.", "ssl.")
_REQUEST = struct.pack(">ihhih9s", 19, 18, 0, 1, 9, b"kwireping")  # ApiVersions, version 0
_CLOSED = "the connection was closed without a response"
_RESPONSE = struct.Struct(">iihi")  # size, correlation id, error code, number of APIs


class PingRow(NamedTuple):
    """A broker that has responded."""

    broker: str
    apis: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire ping``."""
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", help="short for --bootstrap-server HOST:PORT")
    parser.add_argument("--tls", action="store_true", help="the listener has TLS; its certificate is not checked")
    parser.add_argument(
        "--wait", metavar="SECONDS", type=float, default=0.0, help="keep trying for so long (default: 0)"
    )
    output.add_arguments(parser)
    connection.add_arguments(parser)
    parser.set_defaults(timeout=ATTEMPT_S)


def run(arguments: argparse.Namespace) -> int:
    """Send ApiVersions, repeatedly with ``--wait``; 0 if a broker responds."""
    try:
        chosen = settings(arguments)
        text = arguments.address or chosen.bootstrap.partition(",")[0]
        host, port = parse_address(text)
        ask = _way_to_ask(arguments, chosen)
    except (connection.CommandError, ValueError) as error:
        return fail(error)
    deadline = time.monotonic() + arguments.wait
    while True:
        try:
            apis = ask(host or "localhost", port, chosen.timeout_s)
        except PermissionError as error:
            return fail(f"{text}: {error}")
        except OSError as error:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            return fail(f"{text}: {error.strerror or str(error) or 'no response in time'}")
        except ValueError as error:  # a key store or trust store that cannot be used
            return fail(error)
        output.show_one_done(PingRow(text, apis), arguments.output, f"{text} is a Kafka broker with {apis} APIs")
        return 0


def _way_to_ask(arguments: argparse.Namespace, chosen: Settings) -> Callable[[str, int, float], int]:
    """The function that requests the number of a broker's APIs. ValueError if the client properties are wrong."""
    if any(name.startswith(_OF_SECURITY) for name in chosen.properties):
        import asyncio

        from kwire.base.config import ConfigError
        from kwire.security.client import client_security

        try:
            security = client_security(chosen.properties)
        except ConfigError as error:
            file = f"{arguments.command_config}: " if arguments.command_config else ""
            raise ValueError(f"{file}{error}") from None
        return lambda host, port, timeout_s: asyncio.run(_count_apis_logged_in(host, port, timeout_s, security))
    return _count_apis_with_tls if arguments.tls else _count_apis


async def _count_apis_logged_in(host: str, port: int, timeout_s: float, security: ClientSecurity) -> int:
    """`_count_apis` as a client that is logged in. PermissionError if the login fails."""
    import asyncio

    from kwire.base.doors import Doors
    from kwire.cluster.connector import Connector
    from kwire.codec.messages.api_versions_request import ApiVersionsRequest
    from kwire.net.client import ConnectionLost

    try:
        async with asyncio.timeout(timeout_s):
            connection = await Connector(Doors(), security).connect(host, port, "kwire-ping")
            try:
                return len((await connection.call(ApiVersionsRequest(), 0)).api_keys)
            finally:
                connection.close()
    except ConnectionLost:
        tls = security.tls if security.protocol == "SSL" else None
        without = tls is not None and tls.keystore_location is None and tls.keystore_key is None
        hint = "; a listener that requires clients' certificates needs ssl.keystore.location" if without else ""
        raise ConnectionResetError(f"{_CLOSED}{hint}") from None


def _count_apis_with_tls(host: str, port: int, timeout_s: float) -> int:
    """`_count_apis` of a listener with TLS."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        connection = socket.create_connection((host, port), timeout_s)
        with connection, context.wrap_socket(connection) as secured:
            return _exchange(secured)
    except ssl.SSLError as error:
        from kwire.net.tls import TlsError

        raise TlsError.of(error) from None


def _count_apis(host: str, port: int, timeout_s: float) -> int:
    """The number of APIs of a broker. OSError if none responds."""
    with socket.create_connection((host, port), timeout_s) as connection:
        try:
            return _exchange(connection)
        except ConnectionResetError:
            raise ConnectionResetError(f"{_CLOSED}; a listener with TLS needs --tls or --command-config") from None


def _exchange(connection: socket.socket) -> int:
    connection.sendall(_REQUEST)
    data = b""
    while len(data) < _RESPONSE.size:
        received = connection.recv(_RESPONSE.size - len(data))
        if not received:
            raise ConnectionResetError(_CLOSED)
        data += received
    size, correlation_id, error_code, apis = _RESPONSE.unpack(data)
    if correlation_id != 1 or error_code or size < 10:
        raise ConnectionError("the server there is not a Kafka broker")
    return int(apis)
