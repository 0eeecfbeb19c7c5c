"""Frames come out of a byte stream whole, in order and in memory of their own, however the bytes arrive."""

from __future__ import annotations

import asyncio
import struct

import pytest

from kwire.net import connection as connection_module
from kwire.net.settings import RECEIVE_BYTES
from tests.net.conftest import OTHER_KEY, Network, frame, request

STREAM = request(OTHER_KEY, b"one") + request(OTHER_KEY, b"") + request(OTHER_KEY, b"three" * 5)
BODIES = [b"\0\x01one", b"\0\x01", b"\0\x01threethreethreethreethree"]
ENDS = [9, 15, len(STREAM)]


async def test_a_stream_split_at_any_byte_gives_the_same_frames(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    for split in range(1, len(STREAM)):
        before = len(network.answers.frames)
        await client.send(STREAM[:split])
        await network.answers.count(before + sum(end <= split for end in ENDS))
        await client.send(STREAM[split:])
        for body in BODIES:
            assert await client.receive() == body
        assert network.answers.bodies[before:] == BODIES


async def test_a_stream_byte_by_byte_gives_the_same_frames(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    for position in range(len(STREAM)):
        await client.send(STREAM[position : position + 1])
        await asyncio.sleep(0)
    for body in BODIES:
        assert await client.receive() == body


@pytest.mark.parametrize(
    "size", [RECEIVE_BYTES - 4, RECEIVE_BYTES, RECEIVE_BYTES + 1, 3 * RECEIVE_BYTES + 17, 2_000_000]
)
async def test_frames_larger_than_one_receive_arrive_whole(network: Network, size: int) -> None:
    server = network.serve()
    client = await network.connect(server)
    body = struct.pack(">h", OTHER_KEY) + bytes(range(256)) * (size // 256) + b"x" * (size % 256 - 2)
    sending = asyncio.ensure_future(client.send(frame(body) + request(OTHER_KEY, b"next")))
    assert await client.receive() == body
    assert await client.receive() == b"\0\x01next"
    await sending


async def test_frames_are_writable_and_stay_as_they_are_while_others_come(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"a" * 100) + request(OTHER_KEY, b"b" * 100))
    await network.answers.count(2)
    first = network.answers.frames[0]
    first[2:6] = b"AAAA"
    await client.send(request(OTHER_KEY, b"c" * 100))
    await network.answers.count(3)
    assert bytes(first) == b"\0\x01AAAA" + b"a" * 96
    assert network.answers.bodies[1] == b"\0\x01" + b"b" * 100


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 1001, 2**31 - 1])
async def test_a_frame_of_a_size_that_is_not_allowed_closes_the_connection(network: Network, size: int) -> None:
    server = network.serve(request_max_bytes=1000)
    client = await network.connect(server)
    await client.send(struct.pack(">i", size) + b"\0\x01")
    assert await client.at_end()
    assert not network.answers.frames
    assert not server.connections


async def test_an_announced_size_takes_no_memory_before_its_bytes_come(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    await client.send(struct.pack(">i", 100 * 1024 * 1024) + b"\0\x01" + b"x" * 1000)
    connection = next(iter(server.connections), None)
    while connection is None or connection._partial is None:
        await asyncio.sleep(0)
        connection = next(iter(server.connections), None)
    assert connection._partial.__sizeof__() < 1_000_000


async def test_a_dispatcher_that_raises_closes_its_connection_and_no_other(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(connection: connection_module.Connection, body: memoryview) -> None:
        if bytes(body[2:]) == b"bad":
            raise RuntimeError("on purpose")
        connection.send([frame(b"good")], 8)

    server = network.serve()
    network.answers.answer = fail
    bad, good = await network.connect(server), await network.connect(server)
    await bad.send(request(OTHER_KEY, b"bad") + request(OTHER_KEY, b"never started"))
    assert await bad.at_end()
    assert capsys.readouterr().err.count("closing connection") == 1
    await good.send(request(OTHER_KEY))
    assert await good.receive() == b"good"
    assert network.answers.bodies == [b"\0\x01bad", b"\0\x01"]


async def test_an_invalid_request_closes_the_connection(network: Network) -> None:
    def refuse(connection: connection_module.Connection, body: memoryview) -> None:
        raise connection_module.InvalidFrame("unknown API key")

    server = network.serve()
    network.answers.answer = refuse
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    assert await client.at_end()
