"""A client that does not read, or that sends without end, costs the broker a bounded amount of memory."""

from __future__ import annotations

import asyncio
import socket

from kwire.net.connection import Connection
from kwire.net.settings import OUTGOING_LIMIT, RECEIVE_BYTES
from tests.net.conftest import OTHER_KEY, Network, frame, request

ANSWER = frame(b"x" * 100_000)


def answer_much(connection: Connection, body: memoryview) -> None:
    connection.send([ANSWER], len(ANSWER))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


async def test_requests_of_a_client_that_does_not_read_are_not_started(network: Network) -> None:
    network.answers.answer = answer_much
    server = network.serve(send_buffer_bytes=64 * 1024)
    client = await network.connect(server)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    total = 500
    await client.send(b"".join(request(OTHER_KEY) for _ in range(total)))
    await network.answers.count(1)
    await settle()
    started = len(network.answers.frames)
    connection = next(iter(server.connections))
    assert started < total / 2
    assert connection._out.size < OUTGOING_LIMIT + len(ANSWER)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(total):
        assert len(await client.receive()) == 100_000
    assert len(network.answers.frames) == total


async def test_nothing_more_is_read_while_requests_are_held_back(plain_network: Network) -> None:
    network = plain_network
    network.answers.defer = True
    server = network.serve(receive_buffer_bytes=64 * 1024)
    sock = socket.create_connection(server.listeners[0].address)
    with sock:
        sock.setblocking(False)
        sent = 0
        idle = 0
        while idle < 20:
            try:
                sent += sock.send(request(OTHER_KEY, b"y" * 1000) * 100)
                idle = 0
            except BlockingIOError:
                idle += 1
            await asyncio.sleep(0.001)
            assert sent < 50_000_000
        connection = next(iter(server.connections))
        assert len(network.answers.frames) == 1
        assert connection._held is not None and len(connection._held) <= RECEIVE_BYTES


async def test_held_back_requests_go_on_when_their_answers_leave_at_once(network: Network) -> None:
    """Answers fill the queue, hold the next request back and are gone before anything else could wake it."""
    network.answers.defer = True
    server = network.serve(send_buffer_bytes=4_000_000)
    client = await network.connect(server)
    total = 12
    await client.send(b"".join(request(OTHER_KEY) for _ in range(total)))
    await network.answers.count(1)
    network.answers.answer = answer_much
    network.answers.slots[0].answer([ANSWER], len(ANSWER))
    for _ in range(total):
        assert len(await client.receive()) == 100_000


async def test_a_slow_reader_gets_every_byte(network: Network) -> None:
    payload = bytes(range(256)) * 40_000
    network.answers.answer = lambda connection, _: connection.send(
        [b"\x00\x9c\x40\x00", payload[:5], memoryview(payload)[5:]], len(payload) + 4
    )
    server = network.serve(send_buffer_bytes=50_000)
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    assert await client.receive() == payload


async def test_a_connection_that_is_closed_with_bytes_to_send_is_forgotten(network: Network) -> None:
    network.answers.answer = lambda connection, _: connection.send([frame(b"z" * 10_000_000)], 10_000_004)
    server = network.serve()
    client = await network.connect(server)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(request(OTHER_KEY))
    await network.answers.count(1)
    client.writer.transport.abort()
    await network.until_left(server)
