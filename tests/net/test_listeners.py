"""Who may connect, for how long, and over which address."""

from __future__ import annotations

import asyncio
import errno
import socket
from itertools import pairwise
from typing import Any

import pytest

from harness.waiting import PATIENCE_S, until
from kwire.base.config import Endpoint
from kwire.base.doors import Doors, Sockets
from kwire.net import listener as listener_module
from kwire.net.connection import Connection, Slot
from kwire.net.listener import BoundSocket
from kwire.net.server import NetServer
from kwire.net.settings import NetSettings
from kwire.quotas.connections import ConnectionRates
from tests.net.conftest import OTHER_KEY, Client, Network, frame, request


async def test_port_0_is_a_free_port_that_answers(network: Network) -> None:
    server = network.serve()
    assert server.listeners[0].address[1] > 0
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"hello"))
    assert await client.receive() == b"\0\x01hello"


async def test_ipv6(network: Network) -> None:
    server = network.serve("::1")
    client = await network.connect(server, "::1")
    await client.send(request(OTHER_KEY))
    await client.receive()
    connection = next(iter(server.connections))
    assert connection.local == ("::1", server.listeners[0].address[1])


async def test_any_address_takes_both_families_and_knows_them_apart(network: Network) -> None:
    server = network.serve("")
    for host in ("127.0.0.1", "::1"):
        client = await network.connect(server, host)
        await client.send(request(OTHER_KEY))
        await client.receive()
    assert [connection.peer[0] for connection in server.connections] == ["127.0.0.1", "::1"]
    assert [connection.local[0] for connection in server.connections] == ["127.0.0.1", "::1"]


async def test_localhost_is_both_loopback_addresses_on_one_port(network: Network) -> None:
    server = network.serve("localhost")
    assert [host for host, _ in (listener.address for listener in server.listeners)] == ["127.0.0.1", "::1"]
    for host in ("127.0.0.1", "::1"):
        client = await network.connect(server, host)
        await client.send(request(OTHER_KEY))
        await client.receive()


class FailingSockets(Sockets):
    """The system's sockets, of which the first ones for IPv6 cannot be bound."""

    def __init__(self, error_number: int, failures: int) -> None:
        self._error_number = error_number
        self._failures = failures

    def listen(self, host: str, port: int, backlog: int, receive_buffer_bytes: int) -> Any:
        if host == "::1" and self._failures:
            self._failures -= 1
            raise OSError(self._error_number, "no")
        return super().listen(host, port, backlog, receive_buffer_bytes)


async def test_localhost_without_ipv6_is_that_of_ipv4(network: Network) -> None:
    server = network.serve("localhost", Doors(sockets=FailingSockets(errno.EADDRNOTAVAIL, 1)))
    assert [listener.address[0] for listener in server.listeners] == ["127.0.0.1"]
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await client.receive()


async def test_a_free_port_is_free_for_both_loopback_addresses(network: Network) -> None:
    server = network.serve("localhost", Doors(sockets=FailingSockets(errno.EADDRINUSE, 3)))
    assert len({listener.address[1] for listener in server.listeners}) == 1
    assert len(server.listeners) == 2


async def test_a_port_of_localhost_that_another_program_has_for_ipv6_is_not_shared_with_it() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        endpoint = Endpoint("PLAINTEXT", "localhost", taken.getsockname()[1], "PLAINTEXT")
        with pytest.raises(OSError, match="in use"):
            BoundSocket.bind(Doors(), NetSettings(), endpoint)


async def test_an_address_with_too_many_connections_is_turned_away(plain_network: Network) -> None:
    network = plain_network
    server = network.serve("", max_connections_per_ip=100, max_connections_per_ip_overrides={"127.0.0.1": 2})
    clients = [await network.connect(server) for _ in range(2)]
    for client in clients:
        await client.send(request(OTHER_KEY))
        await client.receive()
    assert await (await network.connect(server)).at_end()
    other = await network.connect(server, "::1")
    await other.send(request(OTHER_KEY))
    await other.receive()
    clients[0].close()
    await network.until_left(server, 2)
    again = await network.connect(server)
    await again.send(request(OTHER_KEY))
    await again.receive()


async def test_at_max_connections_the_next_one_waits_until_there_is_room(plain_network: Network) -> None:
    network = plain_network
    server = network.serve(max_connections=2)
    clients = [await network.connect(server) for _ in range(2)]
    for client in clients:
        await client.send(request(OTHER_KEY))
        await client.receive()
    waiting = await network.connect(server)
    await waiting.send(request(OTHER_KEY, b"waiting"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await waiting.reader.readexactly(1)
    clients[0].close()
    assert await waiting.receive() == b"\0\x01waiting"


async def test_accepting_pauses_instead_of_spinning_without_descriptors(
    plain_network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = plain_network
    monkeypatch.setattr(listener_module, "PAUSE_S", 0.05)
    server = network.serve()
    listener = server.listeners[0]
    real: Any = listener._socket
    calls = 0

    class Exhausted:
        def _accept(self) -> Any:
            nonlocal calls
            calls += 1
            raise OSError(errno.EMFILE, "Too many open files")

        def close(self) -> None:
            real.close()

    listener._socket = Exhausted()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    client = await network.connect(server)
    await asyncio.sleep(0.02)
    assert 1 <= calls <= 1 + (loop.time() - began_s) / listener_module.PAUSE_S
    listener._socket = real
    await client.send(request(OTHER_KEY, b"late"))
    assert await client.receive() == b"\0\x01late"


async def test_idle_connections_are_closed_and_busy_ones_are_not(network: Network) -> None:
    server = network.serve(connections_max_idle_ms=200)
    idle, busy = await network.connect(server), await network.connect(server)
    closing = asyncio.ensure_future(idle.at_end())
    while not closing.done():
        await busy.send(request(OTHER_KEY))
        await busy.receive()
        await asyncio.sleep(0.02)
    assert closing.result()
    assert len(server.connections) == 1


async def test_very_many_idle_connections_are_closed_in_several_turns(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.net.server.SWEPT_PER_TURN", 3)
    monkeypatch.setattr("kwire.net.server.CLOSED_PER_TURN", 2)
    server = network.serve()
    clients = [await network.connect(server) for _ in range(8)]
    await until(lambda: len(server.connections) == 8)
    server._wire.tick += 100  # as if they had idled for long
    server._sweep_idle()
    left = [8]  # then after each turn of the loop

    def note() -> None:
        if server.connections:
            left.append(len(server.connections))
            asyncio.get_running_loop().call_soon(note)

    note()
    for client in clients:
        assert await client.at_end()
    closed = [before - after for before, after in pairwise([*left, 0])]
    assert max(closed) == 2, closed


async def test_a_connection_that_speaks_or_closes_between_two_turns_of_the_sweep_is_not_closed_as_idle(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.net.server.CLOSED_PER_TURN", 1)
    server = network.serve()
    clients = [await network.connect(server) for _ in range(3)]
    await until(lambda: len(server.connections) == 3)
    speaking, closing, _ = server.connections  # the last one comes first
    server._wire.tick += 100
    server._sweep_idle()
    assert list(server.connections) == [speaking, closing]
    speaking.active_tick = server._wire.tick  # as if a request had come
    closing.close()
    assert await clients[1].at_end() and await clients[2].at_end()
    assert list(server.connections) == [speaking]


async def test_a_connection_that_waits_for_its_answer_is_not_idle(network: Network) -> None:
    network.answers.defer = True
    server = network.serve(connections_max_idle_ms=50)
    waiting, idle = await network.connect(server), await network.connect(server)
    await waiting.send(request(OTHER_KEY))
    assert await idle.at_end()
    await asyncio.sleep(0.1)
    network.answers.slots[0].answer([frame(b"at last")], 11)
    assert await waiting.receive() == b"at last"


async def test_garbage_on_the_port_does_no_harm(network: Network) -> None:
    server = network.serve()
    garbage = await network.connect(server)
    await garbage.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert await garbage.at_end()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await client.receive()


async def test_draining_answers_what_was_started_and_starts_nothing_more(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client, unused = await network.connect(server), await network.connect(server)
    await client.send(request(OTHER_KEY, b"started") + request(OTHER_KEY, b"not started"))
    await network.answers.count(1)
    server.stop_accepting()
    draining = asyncio.ensure_future(server.drain(5))
    assert await unused.at_end()
    network.answers.slots[0].answer([frame(b"done")], 8)
    assert await client.receive() == b"done"
    assert await client.at_end()
    await draining
    assert len(network.answers.frames) == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.listeners[0].address)


async def test_draining_closes_connections_while_the_responses_of_others_are_put_off(network: Network) -> None:
    def answer(connection: Connection, _body: memoryview) -> None:
        connection.put_off(lambda: connection.queue(frame(b"done")))
        for each in list(server.connections):
            each.drain()

    network.answers.answer = answer
    server = network.serve()
    client, unused = await network.connect(server), await network.connect(server)
    await until(lambda: len(server.connections) == 2)
    await client.send(request(OTHER_KEY))
    assert await client.receive() == b"done"
    assert await client.at_end()
    assert await unused.at_end()


async def test_a_last_response_ends_a_connection_while_those_of_others_are_put_off(network: Network) -> None:
    def answer(connection: Connection, body: memoryview) -> None:
        if bytes(body[2:]) == b"refused":
            refused.append((connection, connection.defer(pipelined=False)))
            return
        connection.put_off(lambda: connection.queue(frame(b"done")))
        other, slot = refused.pop()
        other.closing = True
        slot.answer([frame(b"no")], 6)

    refused: list[tuple[Connection, Slot]] = []
    network.answers.answer = answer
    server = network.serve()
    client, stranger = await network.connect(server), await network.connect(server)
    await stranger.send(request(OTHER_KEY, b"refused"))
    await network.answers.count(1)
    await client.send(request(OTHER_KEY, b"allowed"))
    assert await stranger.receive() == b"no"
    assert await stranger.at_end()
    assert await client.receive() == b"done"
    assert len(server.connections) == 1


async def test_draining_gives_up_on_clients_that_do_not_read(network: Network) -> None:
    network.answers.answer = lambda connection, _: connection.send([frame(b"z" * 10_000_000)], 10_000_004)
    server = network.serve()
    client = await network.connect(server)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(request(OTHER_KEY))
    await network.answers.count(1)
    await asyncio.wait_for(server.drain(0.05), PATIENCE_S)
    server.close()
    assert not server.connections


class Refusals(ConnectionRates):
    """Rates that let connections wait, or refuse them, for as long as a test says."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.wait_ms = self.refuse_ms = 0

    def accepted(self, listener: str) -> int:
        return self.wait_ms

    def refused_ms(self, listener: str, host: str) -> int:
        return self.refuse_ms


async def knock(network: Network, server: NetServer) -> Client:
    """A connection that sends nothing, not even a TLS handshake."""
    client = Client(*await asyncio.open_connection("127.0.0.1", server.listeners[0].address[1]))
    network.clients.append(client)
    return client


async def is_closed(client: Client) -> bool:
    """Wait until the broker has closed a connection."""
    async with asyncio.timeout(PATIENCE_S):
        return not await client.reader.read()


async def test_a_connection_beyond_the_rate_is_served_later(network: Network) -> None:
    rates = Refusals()
    server = network.serve(rates=rates)
    rates.wait_ms = 100
    started = asyncio.get_running_loop().time()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"hello"))
    assert await client.receive() == b"\0\x01hello"
    assert asyncio.get_running_loop().time() - started > 0.09


async def test_connections_wait_one_after_the_other_and_are_closed_with_the_listener(network: Network) -> None:
    rates = Refusals()
    rates.wait_ms = 3_600_000
    server = network.serve(rates=rates)
    clients = [await knock(network, server) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while server.listeners[0]._held is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    server.listeners[0].start()  # as when another connection closes
    assert not server.connections
    server.close()
    assert await is_closed(clients[0])


async def test_a_connection_of_a_throttled_address_is_closed_later_and_does_not_count(network: Network) -> None:
    rates = Refusals()
    rates.refuse_ms = 100
    server = network.serve(rates=rates, max_connections_per_ip=1)
    started = asyncio.get_running_loop().time()
    assert await is_closed(await knock(network, server))
    assert asyncio.get_running_loop().time() - started > 0.09
    rates.refuse_ms = 0
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await client.receive()


async def test_only_so_many_throttled_connections_are_held(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "REFUSED_MAX", 1)
    rates = Refusals()
    rates.refuse_ms = 3_600_000
    server = network.serve(rates=rates)
    await knock(network, server)
    async with asyncio.timeout(PATIENCE_S):
        while not server.listeners[0]._refused:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert await is_closed(await knock(network, server))
    assert len(server.listeners[0]._refused) == 1
