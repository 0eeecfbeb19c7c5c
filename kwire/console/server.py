"""The process: a socket, uvicorn, the ready line, and an orderly end."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import secrets
import signal
import socket
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address

import uvicorn

from kwire.base.addresses import Address, parse_address
from kwire.cli.start import loop_factory
from kwire.console.access import Access
from kwire.console.app import Console, Settings
from kwire.console.clusters import Clusters, Target
from kwire.console.sessions import Sessions, why_no_logins

TOKEN_BYTES = 32
STOP_S = 1
"""Seconds for requests under way when a signal comes."""
CONNECTIONS_MAX = 256
NICENESS = 5
"""The lowest that the process has: brokers and their clients on the same machine go first."""


class StartFailure(Exception):
    """The page cannot be served. The message is one line."""


class _Server(uvicorn.Server):
    """uvicorn, which says when it serves, and ends with status 0 after SIGTERM."""

    def __init__(self, config: uvicorn.Config, url: str, console: Console) -> None:
        super().__init__(config)
        self._url = url
        self._console = console
        self._warming: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and say so."""
        await super().startup(sockets=sockets)
        if self.started:
            print(f"kwire console ready url={self._url}", flush=True)
            self._warming = asyncio.create_task(self._console.warm())

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End with SIGTERM and SIGINT; at once with the second one."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.force_exit = self.should_exit
            self.should_exit = True
            self._console.close()  # streams would hold up the end

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        yield


def serve(arguments: argparse.Namespace, targets: Sequence[Target]) -> int:
    """Serve until a signal comes. `StartFailure`."""
    os.nice(max(NICENESS - os.nice(0), 0))
    secure = _check_tls(arguments)
    bound = _bound(arguments.listen)
    with bound:
        host, port = bound.getsockname()[:2]
        address = Address(host, port)
        token = None if arguments.login else secrets.token_urlsafe(TOKEN_BYTES)
        lifetime_s = math.inf if arguments.token_lifetime is None else arguments.token_lifetime
        access = Access(token, address, secure=secure, allowed_hosts=arguments.allow_host, lifetime_s=lifetime_s)
        settings = Settings(arguments.allow_changes)
        url = f"{'https' if secure else 'http'}://{_shown(address, arguments.allow_host)}/"
        if token is not None:
            url += f"?token={token}"
        if arguments.login:
            _check_login(targets, address, secure)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(arguments, targets, access, settings, bound, url))
    return 0


async def _serve(
    arguments: argparse.Namespace,
    targets: Sequence[Target],
    access: Access,
    settings: Settings,
    bound: socket.socket,
    url: str,
) -> None:
    made = Sessions if arguments.login else Clusters
    console = Console(made(targets, read_only=not settings.allow_changes), access, settings)
    config = uvicorn.Config(
        console.app(),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=arguments.tls_cert,
        ssl_keyfile=arguments.tls_key,
    )
    try:
        await _Server(config, url, console).serve(sockets=[bound])
    finally:
        console.close()


def _check_login(targets: Sequence[Target], address: Address, secure: bool) -> None:
    """`StartFailure` if people cannot log in, or their passwords would cross a network as they are."""
    reason = why_no_logins(targets)
    if reason is not None:
        raise StartFailure(reason)
    if not secure and not ip_address(address.host.partition("%")[0]).is_loopback:
        raise StartFailure("--login beyond this machine needs --tls-cert and --tls-key: passwords are sent")


def _check_tls(arguments: argparse.Namespace) -> bool:
    """Whether the page has TLS. `StartFailure` for files that cannot be used."""
    certificate, key = arguments.tls_cert, arguments.tls_key
    if certificate is None and key is None:
        return False
    if certificate is None or key is None:
        raise StartFailure("--tls-cert and --tls-key belong together")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise StartFailure(f"{certificate}, {key}: {error.reason or error}") from None
    except OSError as error:
        raise StartFailure(f"{certificate}, {key}: {error.strerror}") from None
    return True


def _bound(listen: str) -> socket.socket:
    """A socket at an address. `StartFailure`."""
    try:
        address = parse_address(listen)
    except ValueError as error:
        raise StartFailure(f"--listen: {error}") from None
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(name)
    except OSError as error:
        raise StartFailure(f"--listen {listen}: {error.strerror or error}") from None
    return made


def _shown(address: Address, allowed: Sequence[str]) -> str:
    """The address as a browser may name it."""
    if address.host in ("0.0.0.0", "::"):
        if not allowed:
            return str(Address("localhost", address.port))
        return allowed[0] if ":" in allowed[0] else f"{allowed[0]}:{address.port}"
    return str(address)
