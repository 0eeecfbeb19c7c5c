"""Connections whose clients have not logged in cost others little time and memory, however many they are."""

from __future__ import annotations

import gc
import select
import socket
import time
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest

from harness.waiting import until
from kwire.base.limited_log import LimitedLog
from kwire.base.logging import get_logger
from kwire.net.newcomers import EVENTS_PER_TURN, FREE_BYTES, HELD_MAX, Newcomers
from tests.net.conftest import OTHER_KEY, Answers, Network, request
from tests.net.test_connection_properties import Loop
from tests.net.test_login import LOGIN, Login

FRAME_MAX_BYTES = 512 * 1024

# -- time -------------------------------------------------------------------------------------------------------------


def new_log() -> LimitedLog:
    return LimitedLog(get_logger("tests.net"), time.monotonic)


class Readable:
    """Sockets that have one byte each, and the ones that were read, in order."""

    def __init__(self, count: int) -> None:
        self.loop = Loop()
        self.newcomers = Newcomers(cast(Any, self.loop), select.epoll, new_log())
        self.pairs = [socket.socketpair() for _ in range(count)]
        self.read: list[int] = []
        for number, (ours, theirs) in enumerate(self.pairs):
            theirs.send(b".")
            self.newcomers.add_reader(ours.fileno(), partial(self._take, number))

    def _take(self, number: int) -> None:
        self.take(number)

    def take(self, number: int) -> None:
        self.read.append(number)
        self.pairs[number][0].recv(1)

    def turn(self) -> None:
        for callback in list(self.loop.readers.values()):
            callback()

    def close(self) -> None:
        self.newcomers.close()
        for pair in self.pairs:
            for end in pair:
                end.close()


@pytest.fixture
def readable() -> Iterator[Readable]:
    sockets = Readable(5 * EVENTS_PER_TURN)
    yield sockets
    sockets.close()


def test_a_turn_of_the_loop_reads_few_of_them(readable: Readable) -> None:
    assert len(readable.loop.readers) == 1
    for turn in range(1, 6):
        readable.turn()
        assert len(readable.read) == turn * EVENTS_PER_TURN
    assert sorted(readable.read) == list(range(len(readable.pairs)))
    readable.turn()
    assert len(readable.read) == len(readable.pairs)


def test_those_that_send_without_end_do_not_hold_up_the_others(readable: Readable) -> None:
    for turn in range(5):
        readable.turn()
        for number in readable.read[turn * EVENTS_PER_TURN :]:
            readable.pairs[number][1].send(b".")
    assert len(set(readable.read)) == len(readable.pairs)


def test_one_that_was_closed_in_this_turn_is_not_read(readable: Readable) -> None:
    def take(number: int) -> None:
        readable.read.append(number)
        for ours, _ in readable.pairs:
            readable.newcomers.remove_reader(ours.fileno())

    readable.take = take  # type: ignore[method-assign] # the first one that is read removes all
    readable.turn()
    readable.turn()
    assert len(readable.read) == 1


def test_one_that_is_not_watched_can_be_removed(readable: Readable) -> None:
    readable.newcomers.remove_reader(10_000)
    readable.turn()
    assert readable.read


# -- memory -----------------------------------------------------------------------------------------------------------


class Held:
    """A connection that keeps bytes."""

    def __init__(self, newcomers: Newcomers, number: int) -> None:
        self.id = f"connection {number}"
        self.listener = "SASL"
        self.closed = False
        self._newcomers = newcomers

    def hold(self, size: int) -> None:
        self._newcomers.hold(self, size)

    def close(self) -> None:
        self.closed = True
        self._newcomers.release(self)


def held(count: int) -> tuple[Newcomers, list[Held]]:
    newcomers = Newcomers(cast(Any, Loop()), None, new_log())
    return newcomers, [Held(newcomers, number) for number in range(count)]


def test_the_oldest_are_closed_when_all_keep_too_much() -> None:
    newcomers, connections = held(5)
    for each in connections[:4]:
        each.hold(HELD_MAX // 4)
    assert not any(each.closed for each in connections)
    connections[4].hold(HELD_MAX // 2)
    assert [each.closed for each in connections] == [True, True, False, False, False]
    assert newcomers.held_bytes == HELD_MAX


def test_one_that_keeps_too_much_alone_is_closed() -> None:
    newcomers, (one,) = held(1)
    one.hold(HELD_MAX + 1)
    assert one.closed
    assert newcomers.held_bytes == 0


def test_small_ones_do_not_count() -> None:
    newcomers, (large, small) = held(2)
    small.hold(FREE_BYTES)
    large.hold(HELD_MAX)
    small.hold(FREE_BYTES)
    assert newcomers.held_bytes == HELD_MAX
    large.hold(0)
    assert newcomers.held_bytes == 0
    assert not large.closed


# -- with real sockets, and with TLS ----------------------------------------------------------------------------------


async def test_unfinished_logins_are_bounded_in_memory(network: Network) -> None:
    network.answers = Login(Answers())
    server = network.serve(request_max_bytes=FRAME_MAX_BYTES, login=True)
    most = HELD_MAX // FRAME_MAX_BYTES
    clients = [await network.connect(server) for _ in range(most + 4)]
    body = request(OTHER_KEY, bytes(FRAME_MAX_BYTES - 2))
    for client in clients:
        await client.send(body[:-1])
    await network.until_left(server, most)
    assert [await client.at_end() for client in clients[:4]] == [True] * 4
    await clients[-1].send(body[-1:])
    assert len(await clients[-1].receive()) == FRAME_MAX_BYTES  # the newest is served


async def test_after_the_login_neither_is_limited(network: Network) -> None:
    network.answers = Login(Answers())
    server = network.serve(login=True)
    client = await network.connect(server)
    await client.send(request(OTHER_KEY, LOGIN))
    assert await client.receive()
    (connection,) = server.connections
    newcomers = server._wire.newcomers
    assert newcomers.held_bytes == 0
    assert not newcomers._callbacks
    await client.send(request(OTHER_KEY, b"." * 900)[:-1])
    await client.send(b".")
    assert len(await client.receive()) == 902
    assert connection.dispatcher is not network.answers


@pytest.mark.parametrize("pending", ["none", "answered", "dropped"])
async def test_a_closed_connection_needs_no_garbage_collection(network: Network, pending: str) -> None:
    """Also one with a request that is pending: it is free once that has its response, or is given up."""
    network.answers.defer = True
    server = network.serve(login=pending == "none")
    client = await network.connect(server)
    await until(lambda: server.connections)
    (connection,) = server.connections
    connection.context = Readable(0)
    gone = weakref.ref(connection.context)
    if pending != "none":
        await client.send(request(OTHER_KEY))
        await network.answers.count(1)
    gc.disable()
    try:
        del connection
        client.close()
        await network.until_left(server)
        server._wire.last_read = None
        if pending == "answered":
            network.answers.slots[0].answer([b"late"], 4)
        network.answers.slots.clear()
        await until(lambda: gone() is None)
    finally:
        gc.enable()
