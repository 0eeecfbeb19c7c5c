"""A connection begins with one dispatcher and goes on with another, within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from harness.simulation.world import Machine, Simulation
from kwire.base.config import Endpoint
from kwire.base.logging import get_logger
from kwire.net.connection import Connection, ListenerSetup
from kwire.net.listener import BoundSocket
from kwire.net.server import NetServer
from kwire.net.settings import SETUP_MAX_MS, NetSettings
from tests.net.conftest import OTHER_KEY, PIPELINED_KEY, Answers, Network, frame, request

LOGIN = b"login"
LOGIN_MAX_BYTES = 100


class Login(Answers):
    """Logs everybody in: the response is the request, and what follows goes to ``after``."""

    pipelined_keys: frozenset[int] = frozenset()

    def __init__(self, after: Answers) -> None:
        super().__init__()
        self.after = after

    def dispatch(self, connection: Connection, body: memoryview) -> None:
        super().dispatch(connection, body)
        if bytes(body[2:]) == LOGIN:
            connection.use(self.after, 1000)


async def test_what_follows_the_login_goes_to_the_other_dispatcher(network: Network) -> None:
    after = Answers()
    network.answers = Login(after)
    server = network.serve(request_max_bytes=LOGIN_MAX_BYTES)
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"hello") + request(OTHER_KEY, LOGIN) + request(OTHER_KEY, b"." * 500))
    assert [len(await client.receive()) for _ in range(3)] == [7, 7, 502]
    assert [len(body) for body in after.bodies] == [502]
    (connection,) = server.connections
    assert connection.dispatcher is after
    assert connection.request_max_bytes == 1000


async def test_the_pipelined_requests_are_those_of_the_dispatcher_in_use(network: Network) -> None:
    after = Answers()
    after.defer = True
    network.answers = Login(after)
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, LOGIN) + request(PIPELINED_KEY, b"1") + request(PIPELINED_KEY, b"2"))
    await after.count(2)


async def test_a_frame_that_is_too_large_before_the_login_closes_the_connection(network: Network) -> None:
    network.answers = Login(Answers())
    server = network.serve(request_max_bytes=LOGIN_MAX_BYTES)
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"." * LOGIN_MAX_BYTES))
    assert await client.at_end()
    assert not network.answers.frames


def simulated(scenario: Callable[[Machine, NetServer, Network], Awaitable[None]], **settings: Any) -> None:
    """Run a scenario on virtual time, with a server whose clients have to log in."""
    simulation = Simulation(1)

    async def main() -> None:
        machine, network = simulation.machine("host"), Network()
        network.answers = Login(Answers())
        limits = NetSettings(**settings)
        bound = BoundSocket.bind(machine.doors, limits, Endpoint("SASL", "", 0, "SASL_PLAINTEXT"))
        setups = {"SASL": ListenerSetup(network.answers, LOGIN_MAX_BYTES, login=True)}
        server = NetServer(machine.doors, limits, bound, setups, get_logger("tests.net"))
        server.start()
        await scenario(machine, server, network)
        server.close()

    simulation.run(main())


def test_a_client_that_does_not_log_in_in_time_is_disconnected() -> None:
    async def scenario(machine: Machine, server: NetServer, _: Network) -> None:
        loop = asyncio.get_running_loop()
        sock = await machine.doors.sockets.connect("host", server.listeners[0].address[1])
        began = loop.time()
        while loop.time() < began + SETUP_MAX_MS / 1000 - 1:
            sock.send(request(OTHER_KEY, b"busy"))
            await asyncio.sleep(1)
            sock.recv_into(memoryview(bytearray(100)))
            assert server.connections
        await asyncio.sleep(2)
        assert not server.connections

    simulated(scenario)


def test_a_client_that_sends_a_byte_a_second_is_disconnected() -> None:
    async def scenario(machine: Machine, server: NetServer, network: Network) -> None:
        sock = await machine.doors.sockets.connect("host", server.listeners[0].address[1])
        data = request(OTHER_KEY, b"." * 90)
        for second in range(SETUP_MAX_MS // 1000 - 1):
            sock.send(data[second : second + 1])
            await asyncio.sleep(1)
        assert server.connections
        await asyncio.sleep(2)
        assert not server.connections
        assert not network.answers.frames

    simulated(scenario)


def test_a_client_that_has_logged_in_stays() -> None:
    async def scenario(machine: Machine, server: NetServer, _: Network) -> None:
        sock = await machine.doors.sockets.connect("host", server.listeners[0].address[1])
        sock.send(request(OTHER_KEY, LOGIN))
        await asyncio.sleep(2 * SETUP_MAX_MS / 1000)
        assert len(server.connections) == 1

    simulated(scenario)


def test_the_response_to_a_failed_login_is_delayed_and_nothing_is_done_meanwhile() -> None:
    def refuse(connection: Connection, body: memoryview) -> None:
        connection.close_after(100, connection.defer(pipelined=False), [frame(b"refused")], 11)

    async def scenario(machine: Machine, server: NetServer, network: Network) -> None:
        network.answers.answer = refuse
        sock = await machine.doors.sockets.connect("host", server.listeners[0].address[1])
        sock.send(request(OTHER_KEY, LOGIN) + request(OTHER_KEY, b"more"))
        await asyncio.sleep(0.05)
        sock.send(request(OTHER_KEY, b"and more"))
        await asyncio.sleep(0.05 - 0.001)
        assert not sock.readable()
        await asyncio.sleep(0.05)
        received = bytearray(100)
        assert bytes(received[: sock.recv_into(memoryview(received))]) == frame(b"refused")
        assert sock.recv_into(memoryview(received)) == 0
        assert network.answers.bodies == [request(OTHER_KEY, LOGIN)[4:]]
        assert not server.connections

    simulated(scenario)


def test_a_client_that_leaves_before_its_login_fails_is_no_trouble() -> None:
    def refuse(connection: Connection, body: memoryview) -> None:
        connection.close_after(100, connection.defer(pipelined=False), [frame(b"refused")], 11)
        connection.close()

    async def scenario(machine: Machine, server: NetServer, network: Network) -> None:
        network.answers.answer = refuse
        sock = await machine.doors.sockets.connect("host", server.listeners[0].address[1])
        sock.send(request(OTHER_KEY, LOGIN))
        await asyncio.sleep(1)
        assert sock.recv_into(memoryview(bytearray(100))) == 0

    simulated(scenario)
