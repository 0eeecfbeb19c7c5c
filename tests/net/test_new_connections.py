"""What a new connection begins with, and what is left out for one that never sends a request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest

from harness.tls_peer import Peer
from harness.waiting import until
from kwire.net.connection import ListenerSetup
from kwire.net.newcomers import EVENTS_PER_TURN, Newcomers
from kwire.net.tls_connection import TlsConnection
from tests.net.conftest import OTHER_KEY, REQUEST_MAX_BYTES, Answers, Certificates, Network, frame, request
from tests.net.test_newcomers import new_log
from tests.net.tls.test_handshakes import ManySockets, TurnedLoop, new_wire, run

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


# -- one timer for the deadlines of all -------------------------------------------------------------------------------


class Clock(TurnedLoop):
    """A loop whose time the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Any, *args: Any) -> Any:
        self.timers.append((self.now_s + delay_s, callback))
        return self

    def wait_until(self, now_s: float) -> None:
        """Let time pass."""
        while self.timers and self.timers[0][0] <= now_s:
            self.now_s, callback = self.timers.pop(0)
            callback()
        self.now_s = now_s


class Late:
    """A connection that notes when it was closed."""

    def __init__(self, newcomers: Newcomers, clock: Clock) -> None:
        self.id, self.listener = "connection", "SSL"
        self.closed_s: float | None = None
        self._newcomers, self._clock = newcomers, clock
        newcomers.limit(self, 30)

    def close(self) -> None:
        self.closed_s = self._clock.now_s
        self._newcomers.release(self)


def test_each_connection_has_its_whole_time_and_no_more() -> None:
    clock = Clock()
    newcomers = Newcomers(cast(Any, clock), None, new_log())
    early = Late(newcomers, clock)
    clock.wait_until(10)
    late, released = Late(newcomers, clock), Late(newcomers, clock)
    clock.wait_until(20)
    newcomers.release(released)
    assert len(clock.timers) == 1
    clock.wait_until(100)
    assert (early.closed_s, late.closed_s, released.closed_s) == (30, 40, None)
    assert not clock.timers
    again = Late(newcomers, clock)
    clock.wait_until(200)
    assert again.closed_s == 130


def test_a_turn_of_the_loop_closes_few_late_connections() -> None:
    clock = Clock()
    newcomers = Newcomers(cast(Any, clock), None, new_log())
    late = [Late(newcomers, clock) for _ in range(2 * EVENTS_PER_TURN + 1)]
    for turn in range(1, 4):
        _, callback = clock.timers.pop()
        clock.now_s = 30
        callback()
        assert sum(each.closed_s is not None for each in late) == min(turn * EVENTS_PER_TURN, len(late))
    assert not clock.timers


# -- after a TLS handshake --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_loop_watches_a_tls_connection_from_its_first_request_on(
    certificates: Certificates, version: ssl.TLSVersion
) -> None:
    network = Network(certificates.server_context(version), certificates.client_context())
    server = network.serve()
    silent, speaking = await network.connect(server), await network.connect(server)
    newcomers = server._wire.newcomers
    await until(lambda: not newcomers._due_s)  # the deadline is that of the handshake
    assert len(newcomers._callbacks) == len(server.connections) == 2
    await speaking.send(request(OTHER_KEY, b"first"))
    assert await speaking.receive() == b"\0\x01first"
    assert len(newcomers._callbacks) == 1
    silent.close()
    await network.until_left(server, 1)
    assert not newcomers._callbacks
    await speaking.send(request(OTHER_KEY, b"second"))
    assert await speaking.receive() == b"\0\x01second"
    await network.close()


async def test_a_tls_connection_without_a_request_idles_and_counts(certificates: Certificates) -> None:
    network = Network(certificates.server_context(), certificates.client_context())
    server = network.serve(max_connections_per_ip=2, setup_max_ms=3_600_000)
    silent = [await network.connect(server) for _ in range(2)]
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await network.connect(server)  # the third one of its address
    server._wire.tick += 100  # as if they had idled for long
    server._sweep_idle()
    for client in silent:
        assert await client.at_end()
    assert not server.connections
    assert not server._wire.newcomers._callbacks
    speaking = await network.connect(server)
    await speaking.send(request(OTHER_KEY))
    await speaking.receive()
    await network.close()


async def test_at_max_connections_one_without_a_request_takes_a_place(certificates: Certificates) -> None:
    network = Network(certificates.server_context(), certificates.client_context())
    server = network.serve(max_connections=1)
    silent = await network.connect(server)
    waiting = asyncio.ensure_future(network.connect(server))
    await until(server._counts.full)
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    silent.close()
    await (await waiting).send(request(OTHER_KEY))
    await network.close()


async def test_first_requests_after_the_handshake_are_read_in_portions(certificates: Certificates) -> None:
    network = Network(certificates.server_context(), certificates.client_context())
    server = network.serve()
    clients = [await network.connect(server) for _ in range(3 * EVENTS_PER_TURN)]
    await until(lambda: all(each._established for each in server.connections))  # type: ignore[attr-defined]
    started = [0]  # requests, after each turn of the loop

    def note() -> None:
        started.append(len(network.answers.frames))
        if started[-1] < len(clients):
            asyncio.get_running_loop().call_soon(note)

    note()
    for client in clients:
        client.writer.write(request(OTHER_KEY))  # all in this turn
    await network.answers.count(len(clients))
    assert max(after - before for before, after in pairwise(started)) == EVENTS_PER_TURN
    await network.close()


class Sent(ManySockets):
    """A socket that counts what it is given to send."""

    def __init__(self) -> None:
        super().__init__(5)
        self.sends = 0

    def send(self, data: bytes) -> int:
        self.sends += 1
        return super().send(data)


class Begun:
    """A handshake with TLS 1.3 that lacks the client's last part, ``finished``."""

    def __init__(self, certificates: Certificates, login: bool = False) -> None:
        self.loop, self.socket = TurnedLoop(), Sent()
        wire = new_wire(self.loop)
        context = certificates.server_context()
        setup = ListenerSetup(Answers(), REQUEST_MAX_BYTES, lambda: context, login)
        self.connection = TlsConnection(wire, self.socket, setup, "SSL", ("a", 1), ("b", 2))
        self.connection.start()
        self.peer = Peer(certificates.client_context())
        self.socket.incoming += self.peer.handshake()
        run(self.loop)
        assert self.socket.sends == 1
        self.finished = self.peer.handshake(bytes(self.socket.sent))
        assert self.peer.is_established()
        self.socket.sent.clear()

    def read(self) -> bytes:
        """What the server has sent since the last call, decrypted."""
        data = self.peer.decrypt(bytes(self.socket.sent))
        self.socket.sent.clear()
        return data


def test_the_ticket_leaves_at_once_if_the_client_waits(certificates: Certificates) -> None:
    begun = Begun(certificates)
    begun.socket.incoming += begun.finished
    run(begun.loop)
    assert begun.socket.sends == 2
    assert begun.loop.readers
    assert not begun.socket.closed


def test_a_client_that_ends_after_the_handshake_gets_the_rest_in_one_piece(certificates: Certificates) -> None:
    begun = Begun(certificates)
    begun.socket.incoming += begun.finished + begun.peer.end()
    run(begun.loop)
    run(begun.loop)
    assert begun.socket.closed
    assert begun.socket.sends == 2
    assert not begun.loop.readers


@pytest.mark.parametrize("login", [False, True])
@pytest.mark.parametrize("cut", [0, 7, 10_000])
def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(
    certificates: Certificates, login: bool, cut: int
) -> None:
    begun = Begun(certificates, login)
    early = begun.peer.encrypt(request(OTHER_KEY, b"early"))
    begun.socket.incoming += begun.finished + early[:cut]
    for reader in list(begun.loop.readers.values()):
        reader()
    begun.socket.incoming += early[cut:]  # more comes while the last step waits for its turn
    answer = b""
    for _ in range(4):
        run(begun.loop)
        answer += begun.read()
    assert answer == frame(b"\0\x01early")
    begun.socket.incoming += begun.peer.encrypt(request(OTHER_KEY, b"later"))
    run(begun.loop)
    run(begun.loop)
    assert begun.read() == frame(b"\0\x01later")


@pytest.mark.parametrize("login", [False, True])
def test_a_request_that_comes_with_the_end_of_the_handshake_is_read_in_its_turn(
    certificates: Certificates, login: bool
) -> None:
    begun = Begun(certificates, login)
    begun.socket.incoming += begun.finished + begun.peer.encrypt(request(OTHER_KEY, b"early"))
    for reader in list(begun.loop.readers.values()):
        reader()
    begun.loop.turn()
    begun.loop.turn()  # the responses
    assert begun.read() == frame(b"\0\x01early")
