"""Results that come now or later; failures that nobody waits for cause no warning, the others arrive. Work in steps."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import (
    STEP_S,
    NowOrLater,
    Pace,
    attempt,
    fail,
    for_each,
    for_each_in_turns,
    is_later,
    resolved,
    then,
)


async def test_a_failure_that_nobody_waits_for_is_not_complained_of() -> None:
    loop = asyncio.get_running_loop()
    complaints: list[Any] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    future: asyncio.Future[None] = loop.create_future()
    fail(future, ValueError("gone"))
    del future
    gc.collect()
    assert complaints == []


async def test_a_failure_reaches_who_waits_for_it() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    fail(future, ValueError("gone"))
    fail(future, ValueError("again"))
    with pytest.raises(ValueError, match="gone"):
        await future


async def _sleep(value: int) -> int:
    await asyncio.sleep(0)
    if value < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return value


def _later(value: int) -> NowOrLater[int]:
    return _sleep(value)


def _double(value: int) -> int:
    return 2 * value


async def test_a_step_runs_at_once_on_a_value_and_later_on_an_awaitable() -> None:
    assert then(4, _double) == 8
    assert await resolved(then(_later(4), _double)) == 8
    assert await resolved(then(_later(4), lambda value: _later(value + 1))) == 5
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    pending: NowOrLater[int] = future
    doubled = then(pending, _double)
    assert is_later(doubled)
    future.set_result(5)
    assert await doubled == 10
    assert await resolved(3) == 3


async def test_a_failure_becomes_a_value_whenever_it_comes() -> None:
    def at_once() -> int:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    assert attempt(at_once, lambda error: error.code) is ErrorCode.INVALID_REQUEST
    assert await resolved(attempt(lambda: _later(-1), lambda error: error.code)) == ErrorCode.INVALID_REQUEST
    assert attempt(lambda: 7, lambda _: 0) == 7
    assert await resolved(attempt(lambda: _later(7), lambda _: 0)) == 7


async def test_each_item_has_its_own_result_in_order() -> None:
    def operation(value: int) -> int | asyncio.Future[int]:
        if value == 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return value if value % 2 else asyncio.ensure_future(_sleep(value))

    assert for_each([1, 0, 3], operation, lambda item, _: -item) == [1, 0, 3]
    results = for_each([1, 2, 0, -2, 4, 3], operation, lambda item, _: 100 + item)
    assert is_later(results)
    assert await results == [1, 2, 100, 98, 4, 3]


async def test_an_exception_that_is_no_kafka_error_is_raised() -> None:
    def operation(value: int) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_exception(ValueError(value))
        return future

    with pytest.raises(ValueError, match="1"):
        await resolved(for_each([1], operation, lambda item, _: item))


async def test_few_operations_begin_in_one_turn_and_none_waits_for_another() -> None:
    pending: list[asyncio.Future[int]] = []
    begun: list[int] = []

    def operation(value: int) -> NowOrLater[int]:
        begun.append(value)
        if value == 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if value == 3:
            return _sleep(-1)
        if value % 2:
            return value
        pending.append(asyncio.get_running_loop().create_future())
        return pending[-1]

    task = asyncio.ensure_future(for_each_in_turns(range(7), operation, lambda item, _: 100 + item, 3))
    counts = []
    while len(begun) < 7:
        await asyncio.sleep(0)
        counts.append(len(begun))
    assert counts == [3, 6, 7]
    for number, future in enumerate(pending):
        future.set_result(number)
    assert await task == [100, 1, 0, 103, 1, 5, 2]


class Clock:
    now_s = 7.0

    def __call__(self) -> float:
        return self.now_s


def test_a_step_is_over_after_so_many_things() -> None:
    pace = Pace(Clock(), 3)
    for _ in range(2):
        assert [pace.is_over() for _ in range(3)] == [False, False, True]
        pace.begin()


def test_a_step_is_over_after_its_time() -> None:
    clock = Clock()
    pace = Pace(clock, 100)
    for _ in range(2):
        clock.now_s += STEP_S * 0.9
        assert not pace.is_over()
        clock.now_s += STEP_S * 0.2
        assert pace.is_over()
        pace.begin()
