"""The process: a socket, an instance, uvicorn, the ready line, and an orderly end."""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import Mapping
from typing import Final

from kwire.base.addresses import Address, parse_address
from kwire.base.logging import configure
from kwire.cli.connection import options
from kwire.cli.running.web import ReadyServer, StartFailure, WrongOptions, bound_socket, check_tls, server_config
from kwire.cli.start import loop_factory
from kwire.registry.access import UsersUnreadable, read_users
from kwire.registry.app import RegistryApp
from kwire.registry.election import Identity
from kwire.registry.forwarding import Forwarder
from kwire.registry.instance import Instance
from kwire.registry.topic import Place

_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def serve(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes. `StartFailure`, `CommandError`."""
    configure()
    secure = check_tls(arguments.tls_cert, arguments.tls_key)
    try:
        users = None if arguments.users is None else read_users(arguments.users)
    except UsersUnreadable as error:
        raise StartFailure(str(error)) from None
    settings = options.settings(arguments)
    place = Place(settings.bootstrap, settings.properties, arguments.topic, settings.timeout_s)
    with bound_socket(arguments.listen) as bound:
        address = Address(*bound.getsockname()[:2])
        identity = _identity(address, arguments.advertise, secure)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(arguments, place, identity, users, bound, _url(address, secure)))
    return 0


async def _serve(
    arguments: argparse.Namespace,
    place: Place,
    identity: Identity,
    users: Mapping[str, str] | None,
    bound: socket.socket,
    url: str,
) -> None:
    instance = Instance(place, arguments.group, identity)
    application = RegistryApp(instance, Forwarder(place.timeout_s * 3, arguments.tls_ca or arguments.tls_cert), users)
    await instance.start()
    config = server_config(application.app(), arguments.tls_cert, arguments.tls_key)
    try:
        await ReadyServer(config, f"kwire registry ready url={url}", lambda: None).serve(sockets=[bound])
    finally:
        await instance.close()


def _identity(address: Address, advertised: str | None, secure: bool) -> Identity:
    """How other instances reach this one."""
    if advertised is not None:
        try:
            address = parse_address(advertised)
        except ValueError as error:
            raise WrongOptions(f"--advertise: {error}") from None
    host = socket.gethostname() if address.host in _EVERYWHERE else address.host
    return Identity("https" if secure else "http", host, address.port)


def _url(address: Address, secure: bool) -> str:
    host = "localhost" if address.host in _EVERYWHERE else address.host
    return f"{'https' if secure else 'http'}://{Address(host, address.port)}"
