"""Answers leave in the order of the requests; only pipelined requests are started while others are pending."""

from __future__ import annotations

import asyncio

from harness.waiting import PATIENCE_S
from kwire.net.connection import Connection
from kwire.net.server import NetServer
from kwire.net.settings import FRAMES_PER_TURN, LONG_BYTES, PIPELINE_DEPTH, UNSENT_MAX
from tests.net.conftest import OTHER_KEY, PIPELINED_KEY, Network, frame, request


async def settle() -> None:
    """Let everything happen that needs no more than the loop."""
    for _ in range(10):
        await asyncio.sleep(0.001)


async def test_the_next_request_waits_until_the_previous_is_answered(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"1") + request(OTHER_KEY, b"2"))
    await network.answers.count(1)
    await settle()
    assert len(network.answers.frames) == 1
    network.answers.slots[0].answer([frame(b"first")], 9)
    assert await client.receive() == b"first"
    await network.answers.count(2)
    network.answers.slots[1].answer([frame(b"second")], 10)
    assert await client.receive() == b"second"


async def test_pipelined_requests_start_together_and_are_answered_in_order(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(b"".join(request(PIPELINED_KEY, b"%d" % n) for n in range(3)))
    await network.answers.count(3)
    for number in (2, 1, 0):
        network.answers.slots[number].answer([frame(b"%d" % number)], 5)
    assert [await client.receive() for _ in range(3)] == [b"0", b"1", b"2"]


async def test_nothing_overtakes_a_pipelined_request_that_wants_to_be_alone(network: Network) -> None:
    alone = b"alone"

    def answer(connection: Connection, body: memoryview) -> None:
        network.answers.slots.append(connection.defer(pipelined=bytes(body[2:]) != alone))

    network.answers.answer = answer
    server = network.serve()
    client = await network.connect(server)
    await client.send(b"".join(request(PIPELINED_KEY, text) for text in (b"1", alone, b"3")))
    await network.answers.count(2)
    await settle()
    network.answers.slots[0].answer([frame(b"1")], 5)
    await settle()
    assert len(network.answers.frames) == 2
    network.answers.slots[1].answer([frame(b"2")], 5)
    await network.answers.count(3)


async def test_a_pipelined_answer_that_is_there_at_once_waits_for_the_ones_before(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(PIPELINED_KEY, b"slow"))
    await network.answers.count(1)
    network.answers.defer = False
    await client.send(request(PIPELINED_KEY, b"fast"))
    await network.answers.count(2)
    network.answers.slots[0].answer([frame(b"slow")], 8)
    assert [await client.receive() for _ in range(2)] == [b"slow", b"\0\0fast"]


async def test_other_requests_wait_for_pipelined_ones_and_the_reverse(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(PIPELINED_KEY, b"1") + request(OTHER_KEY, b"2") + request(PIPELINED_KEY, b"3"))
    await network.answers.count(1)
    await settle()
    assert len(network.answers.frames) == 1
    network.answers.slots[0].answer([frame(b"1")], 5)
    await network.answers.count(2)
    await settle()
    assert len(network.answers.frames) == 2
    network.answers.slots[1].answer([frame(b"2")], 5)
    await network.answers.count(3)


async def test_the_number_of_pending_requests_is_bounded(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    total = PIPELINE_DEPTH + 5
    await client.send(b"".join(request(PIPELINED_KEY, b"%d" % n) for n in range(total)))
    await network.answers.count(PIPELINE_DEPTH)
    await settle()
    assert len(network.answers.frames) == PIPELINE_DEPTH
    for slot in list(network.answers.slots):
        slot.answer([frame(b"ok")], 6)
    await network.answers.count(total)
    assert network.answers.bodies[-1] == b"\0\0%d" % (total - 1)


async def test_many_requests_at_once_are_answered_in_turns_and_in_order(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    total = 5 * FRAMES_PER_TURN + 3
    await client.send(b"".join(request(OTHER_KEY, b"%d" % n) for n in range(total)))
    assert [await client.receive() for _ in range(total)] == [b"\0\x01%d" % n for n in range(total)]


async def test_no_answer_leaves_the_order_alone(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(PIPELINED_KEY) * 3)
    await network.answers.count(3)
    network.answers.slots[1].answer(None)
    network.answers.slots[2].answer([frame(b"third")], 9)
    network.answers.slots[0].answer([frame(b"first")], 9)
    assert [await client.receive() for _ in range(2)] == [b"first", b"third"]


async def test_a_muted_connection_starts_nothing_until_its_time_is_over(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"1"))
    await client.receive()
    connection = next(iter(server.connections))
    connection.mute(50)
    started = asyncio.get_running_loop().time()
    await client.send(request(OTHER_KEY, b"2"))
    assert await client.receive() == b"\0\x012"
    assert asyncio.get_running_loop().time() - started >= 0.045


async def test_pending_work_is_cancelled_when_its_connection_is_gone(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await network.answers.count(1)
    cancelled = asyncio.Event()
    network.answers.slots[0].cancel = cancelled.set
    client.close()
    await asyncio.wait_for(cancelled.wait(), PATIENCE_S)
    network.answers.slots[0].answer([frame(b"too late")], 12)  # harmless
    assert not server.connections


def count_unsent(network: Network, server: NetServer) -> list[int]:
    """Answer from now on; with each answer, how many connections have one that has not left comes into the list."""
    unsent: list[int] = []

    def answer(connection: Connection, _body: memoryview) -> None:
        unsent.append(sum(not each.idle for each in server.connections))
        connection.send([frame(b"answer")], 10)

    network.answers.answer = answer
    return unsent


async def test_answers_leave_when_all_connections_have_been_read(network: Network) -> None:
    server = network.serve()
    clients = [await network.connect(server) for _ in range(3)]
    await settle()
    unsent = count_unsent(network, server)
    for client in clients:
        client.writer.write(request(OTHER_KEY))  # leaves at once: all are readable in the same turn
    assert [await client.receive() for client in clients] == [b"answer"] * 3
    assert unsent == [0, 1, 2]
    await settle()
    assert all(each.idle for each in server.connections)


async def test_no_more_answers_are_gathered_than_are_worth_it(network: Network) -> None:
    server = network.serve()
    clients = [await network.connect(server) for _ in range(UNSENT_MAX + 2)]
    for client in clients:  # few connections are read in a turn until their first request
        await client.send(request(OTHER_KEY))
        await client.receive()
    await settle()
    unsent = count_unsent(network, server)
    for client in clients:
        client.writer.write(request(OTHER_KEY))
    assert [await client.receive() for client in clients] == [b"answer"] * len(clients)
    assert max(unsent) == UNSENT_MAX - 1
    network.answers.frames.clear()
    unsent.clear()
    for client in clients[:2]:
        client.writer.write(request(OTHER_KEY, bytes(LONG_BYTES)))
    await network.answers.count(2)
    assert unsent == [0, 0], "what took long is answered at once"


async def test_a_request_that_waits_hears_of_the_one_behind_it(network: Network) -> None:
    network.answers.defer = True
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, b"1"))
    await network.answers.count(1)
    waiting = network.answers.slots[0]
    waiting.wake_early = lambda: waiting.answer([frame(b"at once")], 11)
    await client.send(request(OTHER_KEY, b"2"))
    assert await client.receive() == b"at once"
    await network.answers.count(2)
    assert waiting.wake_early is None
