"""The process: a socket, uvicorn, the ready line, and an orderly end."""

from __future__ import annotations

import argparse
import asyncio
import math
import secrets
import socket
from collections.abc import Sequence
from ipaddress import ip_address

import uvicorn

from kwire.base.addresses import Address
from kwire.base.processes.priority import step_back, yield_to_others
from kwire.cli.running.web import ReadyServer, StartFailure, WrongOptions, bound_socket, check_tls, server_config
from kwire.cli.start import loop_factory
from kwire.console.access import Access
from kwire.console.app import Console, Settings
from kwire.console.clusters import Clusters, Target
from kwire.console.sessions import Sessions, why_no_logins

TOKEN_BYTES = 32


class _Server(ReadyServer):
    """The server of the page, which asks the clusters once it serves."""

    def __init__(self, config: uvicorn.Config, url: str, console: Console) -> None:
        super().__init__(config, f"kwire console ready url={url}", console.close)  # streams would hold up the end
        self._console = console
        self._warming: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and say so."""
        await super().startup(sockets=sockets)
        if self.started:
            yield_to_others()
            self._warming = asyncio.create_task(self._console.warm())


def serve(arguments: argparse.Namespace, targets: Sequence[Target]) -> int:
    """Serve until a signal comes. `StartFailure`."""
    step_back()
    secure = check_tls(arguments.tls_cert, arguments.tls_key)
    with bound_socket(arguments.listen) as bound:
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
    config = server_config(console.app(), arguments.tls_cert, arguments.tls_key)
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
        raise WrongOptions("--login beyond this machine needs --tls-cert and --tls-key: passwords are sent")


def _shown(address: Address, allowed: Sequence[str]) -> str:
    """The address as a browser may name it."""
    if address.host in ("0.0.0.0", "::"):
        if not allowed:
            return str(Address("localhost", address.port))
        return allowed[0] if ":" in allowed[0] else f"{allowed[0]}:{address.port}"
    return str(address)
