"""Requests have views of the buffer in which they were received if much came at once: the bytes stay theirs."""

from __future__ import annotations

import asyncio
import random
import struct

import pytest

from kwire.net import wire as wire_module
from kwire.net.connection import Connection
from kwire.net.settings import LENT_BYTES, RECEIVE_BYTES
from kwire.net.wire import BUFFERS_MAX, Wire
from tests.net.conftest import OTHER_KEY, PIPELINED_KEY, Network, frame


def body(size: int, seed: int, key: int = OTHER_KEY) -> bytes:
    return struct.pack(">h", key) + random.Random(seed).randbytes(size - 2)


def is_view(request: memoryview) -> bool:
    """Whether the memory of a request is larger than it."""
    held = request.obj
    assert isinstance(held, bytearray)
    return len(held) > len(request) + 4


async def test_requests_that_are_kept_do_not_change(network: Network) -> None:
    server = network.serve()
    clients = [await network.connect(server) for _ in range(3)]
    chance = random.Random(11)
    sent = [[body(chance.choice([10, 3000, 9000, 20_000, 60_000]), seed) for seed in range(40)] for _ in clients]

    async def exchange(number: int) -> None:
        for at in range(0, 40, 5):
            await clients[number].send(b"".join(map(frame, sent[number][at : at + 5])))
            for each in sent[number][at : at + 5]:
                assert await clients[number].receive() == each

    await asyncio.gather(*map(exchange, range(3)))
    assert sorted(network.answers.bodies) == sorted(each for bodies in sent for each in bodies)
    assert any(map(is_view, network.answers.frames))


async def test_requests_that_wait_do_not_change(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    network.answers.defer = True
    sent = [body(LENT_BYTES, seed, PIPELINED_KEY) for seed in range(40)]
    for at in range(0, 40, 4):
        await client.send(b"".join(map(frame, sent[at : at + 4])))
        await network.answers.count(at + 4)
    for slot, request in zip(network.answers.slots, network.answers.frames, strict=True):
        slot.answer([frame(bytes(request))], len(request) + 4)
    assert [await client.receive() for _ in sent] == sent


async def test_requests_that_are_held_back_do_not_change(network: Network) -> None:
    server = network.serve()
    client, other = await network.connect(server), await network.connect(server)
    network.answers.defer = True
    sent = [body(20, seed) for seed in range(3)]
    await client.send(b"".join(map(frame, sent)))
    await network.answers.count(1)
    await other.send(frame(body(100, 7)))
    await network.answers.count(2)
    for number, each in enumerate((0, 2, 3), start=3):
        network.answers.slots[each].answer([frame(b"ok")], 6)
        await network.answers.count(min(number, 4))
    assert network.answers.bodies == [sent[0], body(100, 7), *sent[1:]]


async def test_small_requests_keep_no_more_than_their_own_memory(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    small = [body(LENT_BYTES - 1, seed) for seed in range(10)]
    await client.send(b"".join(map(frame, small)))
    assert [await client.receive() for _ in small] == small
    assert not any(map(is_view, network.answers.frames))


async def test_a_client_that_has_not_logged_in_keeps_no_more_than_its_own_memory(network: Network) -> None:
    server = network.serve(login=True)
    client = await network.connect(server)
    sent = body(20_000, 1)
    await client.send(frame(sent))
    assert await client.receive() == sent
    assert not any(map(is_view, network.answers.frames))


async def test_a_buffer_is_used_again_when_nobody_has_a_view_of_it(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires: list[Wire] = []
    receive_buffer = Wire.receive_buffer

    def noted(wire: Wire) -> memoryview:
        wires.append(wire)
        return receive_buffer(wire)

    monkeypatch.setattr(Wire, "receive_buffer", noted)

    def answer(connection: Connection, request: memoryview) -> None:
        network.answers.frames.clear()
        connection.send([frame(bytes(request[:4]))], 8)

    network.answers.answer = answer
    server = network.serve()
    client = await network.connect(server)
    for seed in range(20):
        await client.send(frame(body(20_000, seed)))
        await client.receive()
    assert len(wires[0]._buffers) == 1


def test_few_buffers_are_kept() -> None:
    found = Wire.__new__(Wire)
    found._buffers = []
    views = [found.receive_buffer() for _ in range(BUFFERS_MAX + 2)]
    assert len({id(view.obj) for view in views}) == len(views)
    assert len(found._buffers) == BUFFERS_MAX
    assert all(len(view) == RECEIVE_BYTES for view in views)
    free = views.pop().obj
    found.scratch = None
    assert found.receive_buffer().obj is free


async def test_a_client_whose_bytes_find_no_memory_is_disconnected(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires: list[Wire] = []

    def answer(connection: Connection, request: memoryview) -> None:
        wires.append(connection._wire)
        connection.send([frame(bytes(request))], len(request) + 4)

    network.answers.answer = answer
    server = network.serve()
    client, other = await network.connect(server), await network.connect(server)
    await client.send(frame(body(10, 1)))
    await client.receive()
    wires[0].scratch, wires[0]._buffers = None, []
    with monkeypatch.context() as without:
        without.setattr(wire_module, "bytearray", _refused, raising=False)
        await client.send(frame(body(10, 2)))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.receive()
    await other.send(frame(body(10, 3)))
    assert await other.receive() == body(10, 3)


def _refused(_: int) -> bytearray:
    raise MemoryError
