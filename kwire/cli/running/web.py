"""What processes that serve HTTP have in common: a socket at an address, certificates, a ready line, an orderly end."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from kwire.base.addresses import parse_address

STOP_S: Final = 1
"""Seconds for requests under way when a signal comes."""
CONNECTIONS_MAX: Final = 256


class StartFailure(Exception):
    """Nothing can be served. The message is one line; ``status`` is the command's."""

    status = 1


class WrongOptions(StartFailure):
    """The options are wrong, whatever the machine and the cluster are like."""

    status = 2


class ReadyServer(uvicorn.Server):
    """uvicorn, which writes a line when it serves, and ends with status 0 after SIGTERM. ``close`` is called when a
    signal comes, to end what would hold up the end."""

    def __init__(self, config: uvicorn.Config, line: str, close: Callable[[], None]) -> None:
        super().__init__(config)
        self._line = line
        self._close = close

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and say so."""
        await super().startup(sockets=sockets)
        if self.started:
            print(self._line, flush=True)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End with SIGTERM and SIGINT; at once with the second one."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.force_exit = self.should_exit
            self.should_exit = True
            self._close()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        yield


def server_config(app: Any, certificate: str | None, key: str | None) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def check_tls(certificate: str | None, key: str | None) -> bool:
    """Whether there is TLS. `StartFailure` for files that cannot be used."""
    if certificate is None and key is None:
        return False
    if certificate is None or key is None:
        raise WrongOptions("--tls-cert and --tls-key belong together")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise StartFailure(f"{certificate}, {key}: {error.reason or error}") from None
    except OSError as error:
        raise StartFailure(f"{certificate}, {key}: {error.strerror}") from None
    return True


def bound_socket(listen: str) -> socket.socket:
    """A socket at an address. `StartFailure`."""
    try:
        address = parse_address(listen)
    except ValueError as error:
        raise WrongOptions(f"--listen: {error}") from None
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
