"""Connections to other brokers over TLS: who is not the broker that it should be is not talked to."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator

import pytest
import trustme

from harness.simulation.world import Simulation
from kwire.base.doors import Doors
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.metadata_response import MetadataResponse
from kwire.codec.protocol import encode
from kwire.net.client import ClientConnection, ConnectionLost
from kwire.net.connection import Connection
from kwire.net.server import NetServer
from kwire.net.settings import SETUP_MAX_MS
from kwire.net.tls import TlsError
from tests.net.conftest import Certificates, Network

VERSION = 4


def answer_with_cluster_id(connection: Connection, body: memoryview) -> None:
    """Metadata of a cluster with a long id."""
    correlation = bytes(body[4:8])
    response = encode(MetadataResponse(cluster_id="x" * 20_000), VERSION)
    connection.send([struct.pack(">i", len(response) + 4), correlation, response], len(response) + 8)


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls12", "tls13"])
async def network(request: pytest.FixtureRequest, certificates: Certificates) -> AsyncIterator[Network]:
    network = Network(certificates.server_context(request.param), certificates.client_context())
    network.answers.answer = answer_with_cluster_id
    yield network
    await network.close()


async def connect(server: NetServer, tls: ssl.SSLContext | None, host: str = "localhost") -> ClientConnection:
    return await ClientConnection.connect(Doors(), host, server.listeners[0].address[1], "test", tls)


async def test_calls_are_answered_in_order(network: Network) -> None:
    connection = await connect(network.serve(), network.client_tls)
    calls = [connection.call(MetadataRequest(topics=[]), VERSION) for _ in range(200)]
    async with asyncio.timeout(10):
        responses = await asyncio.gather(*calls)
    assert {len(response.cluster_id) for response in responses} == {20_000}
    connection.close()


async def test_a_large_request_passes_a_small_window(network: Network) -> None:
    server = network.serve(send_buffer_bytes=20_000, receive_buffer_bytes=20_000)
    connection = await connect(server, network.client_tls)
    connection._client_id = "y" * 30_000
    calls = [connection.call(MetadataRequest(topics=[]), VERSION) for _ in range(100)]
    async with asyncio.timeout(10):
        await asyncio.gather(*calls)
    assert {len(body) for body in network.answers.frames} == {10 + 30_000 + 4 + 1}
    connection.close()


async def test_pending_calls_fail_when_the_server_ends_the_connection(network: Network) -> None:
    network.answers.answer = None
    network.answers.defer = True
    server = network.serve()
    connection = await connect(server, network.client_tls)
    call = connection.call(MetadataRequest(topics=[]), VERSION)
    await network.answers.count(1)
    server.close_connections()
    with pytest.raises(ConnectionLost):
        await call
    assert connection.closed


async def test_a_certificate_of_an_unknown_authority_is_refused(network: Network) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trustme.CA().configure_trust(context)
    server = network.serve()
    with pytest.raises(TlsError, match=r"certificate verify failed: self-signed"):
        await connect(server, context)
    await network.until_left(server)


async def test_a_certificate_for_another_host_is_refused_unless_names_are_not_checked(network: Network) -> None:
    server = network.serve()
    assert network.client_tls is not None
    with pytest.raises(TlsError, match=r"IP address mismatch.*127\.0\.0\.1"):
        await connect(server, network.client_tls, "127.0.0.1")
    network.client_tls.check_hostname = False
    connection = await connect(server, network.client_tls, "127.0.0.1")
    await connection.call(MetadataRequest(topics=[]), VERSION)
    connection.close()


async def test_a_plaintext_server_is_a_failed_handshake(plain_network: Network, certificates: Certificates) -> None:
    server = plain_network.serve(request_max_bytes=1000)
    with pytest.raises(OSError, match=r"closed the connection during the TLS handshake|reset"):
        await connect(server, certificates.client_context())


async def test_a_server_that_is_no_broker_is_a_failed_handshake(certificates: Certificates) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with pytest.raises(TlsError, match="wrong version number"):
        await ClientConnection.connect(
            Doors(), "localhost", server.sockets[0].getsockname()[1], "test", certificates.client_context()
        )
    server.close()
    await server.wait_closed()


def test_a_server_that_says_nothing_is_given_up(certificates: Certificates) -> None:
    simulation = Simulation(1)

    async def main() -> None:
        doors = simulation.machine("host").doors
        silent = doors.sockets.listen("", 9092, 10, -1)
        began = simulation.elapsed_s
        with pytest.raises(TimeoutError, match="handshake"):
            await ClientConnection.connect(doors, "host", 9092, "test", certificates.client_context())
        assert simulation.elapsed_s - began == pytest.approx(SETUP_MAX_MS / 1000, abs=0.1)
        silent.close()

    simulation.run(main())
