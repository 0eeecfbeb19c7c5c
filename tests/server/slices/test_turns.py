"""Requests that take long share the turns of the loop: the others do not wait until all of them are done."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from harness.raw_client import ConnectionClosed, RawClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.server.broker import Broker
from kwire.server.requests.turns import LONG_S, TURN_S, Turns
from tests.server.conftest import Brokers, closed, serve
from tests.server.slices.counted_turns import CountedTurns

VERSION = 4


def work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Handled:
    """An API that takes its time. ``turns``: the turn in which each request was handled, by its group."""

    def __init__(self, seconds: float, pipelined: bool = False, later: bool = False) -> None:
        self.seconds = seconds
        self.later = later
        self.turns: dict[str, int] = {}
        self.counted = CountedTurns()
        self.api = Api(ApiKey.HEARTBEAT, served=(0, 4), handle=self.handle, pipelined=pipelined)

    def handle(self, request: HeartbeatRequest, context: RequestContext) -> Any:
        work(self.seconds)
        self.turns[request.group_id] = self.counted.count
        if not self.later:
            return HeartbeatResponse()
        future: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.001, future.set_result, HeartbeatResponse())
        return future


async def serving(brokers: Brokers, handled: Handled, count: int) -> tuple[Broker, list[RawClient]]:
    """A broker with this API, and clients that are connected to it."""
    broker = await brokers.start()
    serve(broker, handled.api)
    return broker, [await brokers.connect(broker) for _ in range(count)]


async def noted(ended: list[str], name: str, call: Awaitable[Any]) -> None:
    """Make a call, and note its end."""
    await call
    ended.append(name)


async def handled_at_once(brokers: Brokers, handled: Handled, count: int = 8) -> list[int]:
    """The turns in which the requests of so many clients are handled that come at the same time, in their order."""
    broker, clients = await serving(brokers, handled, count)
    await (await brokers.connect(broker)).call(HeartbeatRequest(group_id="first"), VERSION)
    first = handled.turns.pop("first")
    calls = (each.call(HeartbeatRequest(group_id=f"{number}"), VERSION) for number, each in enumerate(clients))
    assert await asyncio.gather(*calls) == [HeartbeatResponse()] * count
    handled.counted.stop()
    assert list(handled.turns) == [f"{number}" for number in range(count)]
    assert min(handled.turns.values()) > first
    return list(handled.turns.values())


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_each_turn_has_one_of_the_requests_that_fill_it(brokers: Brokers, later: bool) -> None:
    turns = await handled_at_once(brokers, Handled(TURN_S, later=later))
    assert len(set(turns)) == 8


async def test_a_turn_has_as_many_as_there_is_time_for(brokers: Brokers) -> None:
    turns = await handled_at_once(brokers, Handled(LONG_S))
    assert max(turns.count(turn) for turn in turns) <= TURN_S / LONG_S


async def test_pipelined_requests_do_not_wait(brokers: Brokers) -> None:
    turns = await handled_at_once(brokers, Handled(TURN_S, pipelined=True))
    assert len(set(turns)) < 8


async def test_a_short_request_overtakes_the_long_ones(brokers: Brokers) -> None:
    handled = Handled(TURN_S)
    broker, clients = await serving(brokers, handled, 8)
    quick = await brokers.connect(broker)
    await asyncio.gather(quick.call(ApiVersionsRequest(), 0), clients[0].call(HeartbeatRequest(group_id="0"), VERSION))
    calls = [asyncio.ensure_future(each.call(HeartbeatRequest(group_id="g"), VERSION)) for each in clients]
    await quick.call(ApiVersionsRequest(), 0)
    assert sum(call.done() for call in calls) < 8
    await asyncio.gather(*calls)
    handled.counted.stop()


async def test_what_is_read_in_the_same_turn_does_not_wait_for_one_that_takes_long(brokers: Brokers) -> None:
    handled = Handled(TURN_S)
    broker, clients = await serving(brokers, handled, 4)
    quick = await brokers.connect(broker)
    await quick.call(ApiVersionsRequest(), 0)
    await asyncio.gather(*(each.call(HeartbeatRequest(group_id="first"), VERSION) for each in clients))
    broker.dispatcher._routes[ApiKey.API_VERSIONS, 0].takes_long = False  # on a busy machine it may have
    ended: list[str] = []
    calls = [noted(ended, "long", each.call(HeartbeatRequest(group_id="g"), VERSION)) for each in clients]
    await asyncio.gather(*calls, noted(ended, "short", quick.call(ApiVersionsRequest(), 0)))
    assert ended == ["short"] + ["long"] * 4
    handled.counted.stop()


async def test_the_requests_of_one_client_stay_in_order(brokers: Brokers) -> None:
    handled = Handled(TURN_S)
    _, (client, other) = await serving(brokers, handled, 2)
    await other.call(HeartbeatRequest(group_id="first"), VERSION)
    ended: list[str] = []
    await asyncio.gather(
        other.call(HeartbeatRequest(group_id="other"), VERSION),
        noted(ended, "long", client.call(HeartbeatRequest(group_id="g"), VERSION)),
        noted(ended, "short", client.call(ApiVersionsRequest(), 0)),
    )
    assert ended == ["long", "short"]
    handled.counted.stop()


async def test_a_request_whose_client_has_gone_is_not_handled(brokers: Brokers) -> None:
    handled = Handled(TURN_S)
    broker, clients = await serving(brokers, handled, 3)
    await clients[0].call(HeartbeatRequest(group_id="first"), VERSION)
    turns = broker.dispatcher._turns
    turns.is_over = True  # nobody has the next turn, until it is given below
    call = asyncio.ensure_future(clients[1].call(HeartbeatRequest(group_id="gone"), VERSION))
    while not turns._waiting:  # noqa: ASYNC110
        await asyncio.sleep(0)
    for connection in [each for each in broker.net.connections if each.pending]:
        connection.close()
    turns._next()
    with pytest.raises(ConnectionClosed):
        await call
    assert "gone" not in handled.turns
    await clients[2].call(HeartbeatRequest(group_id="next"), VERSION)
    handled.counted.stop()


async def test_a_failure_ends_its_connection_and_no_other(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    handled = Handled(TURN_S)
    broker, clients = await serving(brokers, handled, 3)
    await clients[0].call(HeartbeatRequest(group_id="first"), VERSION)
    turns = broker.dispatcher._turns
    turns.is_over = True
    calls = [asyncio.ensure_future(each.call(HeartbeatRequest(group_id="g"), VERSION)) for each in clients[1:]]
    while len(turns._waiting) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    begun = broker.dispatcher._begun
    failing = iter([True, False])

    def fail_once(exchange: Any, response: Any) -> None:
        if next(failing):
            raise RuntimeError("planted")
        begun(exchange, response)

    monkeypatch.setattr(broker.dispatcher, "_begun", fail_once)
    turns._next()
    assert await closed(clients[1])
    assert await calls[1] == HeartbeatResponse()
    with pytest.raises(ConnectionClosed):
        await calls[0]
    handled.counted.stop()


async def test_what_waits_is_started_in_the_order_in_which_it_came() -> None:
    turns = Turns()
    started: list[int] = []

    def start(number: int) -> None:
        started.append(number)
        turns.spend(TURN_S)

    turns.spend(TURN_S)
    for number in range(5):
        turns.wait(lambda number=number: start(number))  # type: ignore[misc]
    while turns.is_over:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert started == [0, 1, 2, 3, 4]


async def _read_around(turns: Turns) -> list[str]:
    """What is done, in order, when a second connection has bytes while one is read whose request takes long."""
    loop = asyncio.get_running_loop()
    done: list[str] = []
    (long, its_client), (short, other_client) = socket.socketpair(), socket.socketpair()
    ended = loop.create_future()

    def waited() -> None:
        done.append("waited")
        ended.set_result(None)

    def read_long() -> None:
        long.recv(1)
        done.append("long")
        turns.spend(TURN_S)
        turns.wait(waited)
        other_client.send(b"x")

    def read_short() -> None:
        short.recv(1)
        done.append("short")

    with long, its_client, short, other_client:
        loop.add_reader(long, read_long)
        loop.add_reader(short, read_short)
        its_client.send(b"x")
        await ended
        loop.remove_reader(long)
        loop.remove_reader(short)
    return done


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "libuv"])
def test_others_are_read_between_two_that_fill_a_turn(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(_read_around(Turns())) == ["long", "short", "waited"]
