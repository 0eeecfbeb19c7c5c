"""A network server whose requests are answered by the test."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trustme

from harness.waiting import PATIENCE_S
from kwire.base.config import Endpoint
from kwire.base.doors import Doors
from kwire.base.logging import get_logger
from kwire.net.connection import Connection, ListenerSetup, Slot
from kwire.net.listener import BoundSocket
from kwire.net.server import NetServer
from kwire.net.settings import NetSettings
from kwire.quotas.connections import ConnectionRates

PIPELINED_KEY = 0
OTHER_KEY = 1
REQUEST_MAX_BYTES = 100 * 1024 * 1024


def frame(body: bytes) -> bytes:
    """A body with its size before it."""
    return struct.pack(">i", len(body)) + body


def request(key: int, text: bytes = b"") -> bytes:
    """A frame that begins with an API key."""
    return frame(struct.pack(">h", key) + text)


class Answers:
    """A dispatcher that keeps what it gets. By default it echoes; with ``defer`` every request waits for the test."""

    pipelined_keys = frozenset({PIPELINED_KEY})

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.slots: list[Slot] = []
        self.defer = False
        self.answer: Callable[[Connection, memoryview], None] | None = None
        self.arrived = asyncio.Event()

    def dispatch(self, connection: Connection, body: memoryview) -> None:
        self.frames.append(body)
        self.arrived.set()
        if self.answer is not None:
            self.answer(connection, body)
        elif self.defer:
            self.slots.append(connection.defer(pipelined=body[1] in self.pipelined_keys))
        else:
            connection.send([frame(bytes(body))], len(body) + 4)

    @property
    def bodies(self) -> list[bytes]:
        return [bytes(body) for body in self.frames]

    async def count(self, number: int) -> None:
        """Wait until so many requests have been started."""
        while len(self.frames) < number:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), PATIENCE_S)


class Network:
    """Servers on free ports, closed with the test. ``tls``: for both sides of all connections."""

    def __init__(self, server_tls: ssl.SSLContext | None = None, client_tls: ssl.SSLContext | None = None) -> None:
        self.server_tls = server_tls
        self.client_tls = client_tls
        self.servers: list[NetServer] = []
        self.clients: list[Client] = []
        self.answers = Answers()

    def serve(
        self,
        host: str = "127.0.0.1",
        doors: Doors | None = None,
        request_max_bytes: int = REQUEST_MAX_BYTES,
        login: bool = False,
        rates: ConnectionRates | None = None,
        **settings: Any,
    ) -> NetServer:
        doors, chosen = doors or Doors(), NetSettings(**settings)
        bound = BoundSocket.bind(doors, chosen, Endpoint("PLAINTEXT", host, 0, "PLAINTEXT"))
        tls = self.server_tls
        setup = ListenerSetup(self.answers, request_max_bytes, None if tls is None else lambda: tls, login)
        chosen_rates = None if rates is None else lambda: rates
        server = NetServer(doors, chosen, bound, {"PLAINTEXT": setup}, get_logger("tests.net"), chosen_rates)
        server.start()
        self.servers.append(server)
        return server

    async def connect(self, server: NetServer, host: str = "127.0.0.1") -> Client:
        tls, name = self.client_tls, None if self.client_tls is None else "localhost"
        reader, writer = await asyncio.open_connection(
            host, server.listeners[0].address[1], ssl=tls, server_hostname=name
        )
        self.clients.append(Client(reader, writer))
        return self.clients[-1]

    async def until_left(self, server: NetServer, number: int = 0) -> None:
        """Wait until a server has at most so many connections."""
        async with asyncio.timeout(PATIENCE_S):
            while len(server.connections) > number:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        for server in self.servers:
            server.close()
        for client in self.clients:
            client.close()
            try:
                await client.writer.wait_closed()
            except (ConnectionError, ssl.SSLError):
                pass


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> bytes:
        """The body of the next frame."""
        async with asyncio.timeout(PATIENCE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def at_end(self) -> bool:
        """Whether the server closed the connection (waits for it)."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()


class Certificates:
    """A certificate authority, a server's certificate for `localhost` and a client's."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.server = self.authority.issue_cert("localhost", "host")
        self.client = self.authority.issue_cert("client@example.org", common_name="client")

    def server_context(
        self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, client_auth: ssl.VerifyMode = ssl.CERT_NONE
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        self.server.configure_cert(context)
        self.authority.configure_trust(context)
        context.verify_mode = client_auth
        return context

    def client_context(self, certificate: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        if certificate:
            self.client.configure_cert(context)
        return context


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    return Certificates()


@pytest.fixture(params=[None, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["plaintext", "tls12", "tls13"])
async def network(request: pytest.FixtureRequest) -> AsyncIterator[Network]:
    """What holds for plaintext holds over TLS."""
    if request.param is None:
        network = Network()
    else:
        certificates: Certificates = request.getfixturevalue("certificates")
        network = Network(certificates.server_context(request.param), certificates.client_context())
    yield network
    await network.close()


@pytest.fixture
async def plain_network() -> AsyncIterator[Network]:
    """Without TLS: for tests of the sockets themselves."""
    network = Network()
    yield network
    await network.close()
