"""Large frames are received in place, in memory that is bounded by what came and is used again only when it is free."""

from __future__ import annotations

import asyncio
import random
import struct

import pytest

from kwire.net import large_frames
from kwire.net.connection import Connection
from kwire.net.large_frames import GROWTH, LARGE_BYTES, SPARE_BUFFERS, SPARE_BYTES_MAX, LargeFrame, SpareBuffers
from kwire.net.settings import RECEIVE_BYTES
from tests.net.conftest import OTHER_KEY, Network, frame, request


def body(size: int, seed: int) -> bytes:
    return struct.pack(">h", OTHER_KEY) + random.Random(seed).randbytes(size)


async def test_large_and_small_frames_in_pieces_of_any_size_arrive_as_they_were_sent(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    chance = random.Random(5)
    bodies = [body(chance.choice([10, 70_000, 130_000, 300_000, 1_100_000]), seed) for seed in range(20)]
    stream = b"".join(map(frame, bodies))

    async def send() -> None:
        position = 0
        while position < len(stream):
            size = chance.choice([3, 5000, 64_000, 131_072, 400_000])
            await client.send(stream[position : position + size])
            position += size
            await asyncio.sleep(0)

    sending = asyncio.ensure_future(send())
    for sent in bodies:
        assert await client.receive() == sent
    await sending


async def test_frames_of_many_megabytes_arrive_as_they_were_sent(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    bodies = [body(size, size) for size in (5_000_000, 2_200_000, 17_500_000)]
    for sent in bodies:
        sending = asyncio.ensure_future(client.send(frame(sent)))
        assert await client.receive() == sent
        await sending
    assert network.answers.bodies == bodies


@pytest.mark.parametrize("room_for", [0, 2 << 20])
async def test_a_client_whose_frame_finds_no_memory_is_disconnected(
    network: Network, monkeypatch: pytest.MonkeyPatch, room_for: int
) -> None:
    def refuse(size: int) -> bytearray:
        if size > room_for:
            raise MemoryError(f"{size} bytes: Cannot allocate memory")
        return bytearray(size)

    monkeypatch.setattr(large_frames, "buffer_of", refuse)
    monkeypatch.setattr(large_frames, "enlarged", lambda _buffer, size: refuse(size))
    server = network.serve()
    other, client = await network.connect(server), await network.connect(server)
    sending = asyncio.ensure_future(client.send(frame(body(5_000_000, 1))))
    with pytest.raises((ConnectionError, EOFError)):
        await client.receive()
    await asyncio.gather(sending, return_exceptions=True)
    await other.send(frame(body(10, 1)))
    assert await other.receive() == body(10, 1)


async def test_the_memory_of_a_frame_that_is_still_looked_into_is_not_used_again(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    bodies = [body(1_000_000, seed) for seed in range(4)]
    for sent in bodies:
        await client.send(frame(sent))
        assert await client.receive() == sent
    assert network.answers.bodies == bodies  # the test has kept views of all of them


async def test_the_memory_of_a_frame_that_is_done_with_is_used_again(network: Network) -> None:
    buffers: list[int] = []

    def answer(connection: Connection, view: memoryview) -> None:
        buffers.append(id(view.obj))
        network.answers.frames.clear()
        connection.send([frame(b"ok")], 6)

    network.answers.answer = answer
    server = network.serve()
    client = await network.connect(server)
    for seed in range(5):
        await client.send(frame(body(1_000_000, seed)))
        assert await client.receive() == b"ok"
    assert len(set(buffers[1:])) == 1


def test_the_memory_of_a_frame_that_had_to_grow_is_used_again() -> None:
    spare, need = SpareBuffers(), SPARE_BYTES_MAX
    large = LargeFrame(spare, bytearray(b"x" * LARGE_BYTES), need)
    large.have = len(large.buffer)
    assert large.have < need and len(large.room()) == RECEIVE_BYTES
    assert bytes(large.whole()[: LARGE_BYTES + 1]) == b"x" * LARGE_BYTES + b"\0"
    large.done()
    assert spare.take(need, need) is large.buffer


async def test_a_large_frame_that_may_not_start_yet_waits(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    large = body(900_000, 1)
    sending = asyncio.ensure_future(
        client.send(request(OTHER_KEY, b"first") + frame(large) + request(OTHER_KEY, b"last"))
    )
    await network.answers.count(1)
    for number in range(3):
        await network.answers.count(number + 1)
        network.answers.slots[number].answer([frame(b"done")], 8)
        assert await client.receive() == b"done"
    await sending
    assert network.answers.bodies == [b"\0\x01first", large, b"\0\x01last"]


def test_what_is_laid_out_is_bounded_by_what_came() -> None:
    begun = bytearray(LARGE_BYTES)
    large = LargeFrame(SpareBuffers(), begun, 100 << 20)
    assert len(large.buffer) == GROWTH * LARGE_BYTES
    assert len(large.room()) == RECEIVE_BYTES
    large.have = len(large.buffer)
    assert len(large.room()) == RECEIVE_BYTES
    assert len(large.buffer) == GROWTH * GROWTH * LARGE_BYTES


def test_the_last_piece_ends_with_the_frame() -> None:
    large = LargeFrame(SpareBuffers(), bytearray(LARGE_BYTES), 2 * LARGE_BYTES)
    assert len(large.room()) == LARGE_BYTES


def test_few_and_only_free_buffers_are_kept() -> None:
    spare = SpareBuffers()
    seen = bytearray(1000)
    view = memoryview(seen)
    spare.give_back(seen)
    assert spare.take(1000, 1000) is not seen
    view.release()
    spare.give_back(seen)
    assert spare.take(2000, 2000) is not seen, "too small"
    assert spare.take(1000, 1000) is seen
    spare.give_back(bytearray(SPARE_BYTES_MAX + 1))
    for _ in range(SPARE_BUFFERS + 3):
        spare.give_back(bytearray(1000))
    assert len(spare._spare) == SPARE_BUFFERS
