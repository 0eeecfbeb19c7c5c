"""What a new connection begins with."""

from __future__ import annotations

import socket

import pytest

from harness.waiting import until
from tests.net.conftest import Network

# -- accepted sockets -------------------------------------------------------------------------------------------------


async def test_an_accepted_socket_inherits_the_options_of_the_listening_one(plain_network: Network) -> None:
    server = plain_network.serve(send_buffer_bytes=48 * 1024)
    await plain_network.connect(server)
    await until(lambda: server.connections)
    (connection,) = server.connections
    sock = connection._socket
    assert sock.gettimeout() == 0
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 48 * 1024)
        expected = other.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", ""])
async def test_the_local_address_is_the_one_that_the_client_has_reached(plain_network: Network, host: str) -> None:
    server = plain_network.serve(host)
    client = await plain_network.connect(server, "127.0.0.1")
    await until(lambda: server.connections)
    (connection,) = server.connections
    assert connection.local == client.writer.get_extra_info("peername")
    assert connection.peer == client.writer.get_extra_info("sockname")
