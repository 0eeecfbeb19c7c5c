"""Results that are there now or come later, the outcomes of futures, and work that is done in steps.

An operation that need not wait returns a plain value, which costs neither a task nor a turn of the event loop; one that
must wait returns a future or a coroutine. `NowOrLater` is the type of such a result, and `then`, `attempt`, `for_each`
and `resolved` are the ways to go on with one. "Later" is an `asyncio.Future` or a coroutine, and no other awaitable.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kwire.base.errors import KafkaError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
R = TypeVar("R")

STEP_S: Final = 0.001
"""A step of work that is done in steps is over after this time, however little was done."""

NowOrLater: TypeAlias = T | Awaitable[T]
"""A value, or an awaitable of it."""

_LATER: Final = (Future, CoroutineType)


def is_later(result: NowOrLater[T]) -> TypeIs[Awaitable[T]]:
    """Whether a result has to be awaited. A plain value costs two type checks, not the look into `Awaitable`."""
    return isinstance(result, _LATER)


def then(result: NowOrLater[T], step: Callable[[T], NowOrLater[R]]) -> NowOrLater[R]:
    """The result of ``step``, called with the value of ``result``: at once, or when the value is there."""
    return _then_later(result, step) if is_later(result) else step(result)


async def _then_later(result: Awaitable[T], step: Callable[[T], NowOrLater[R]]) -> R:
    return await resolved(step(await result))


async def in_turns(steps: Generator[None, None, T]) -> T:
    """The result of work that is done in steps, each in a turn of the event loop of its own."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def at_once(steps: Generator[object, None, T]) -> T:
    """The result of work that could be done in steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Pace:
    """When a step of work about very many things is over: after ``count`` of them, or after ``step_s``, because one
    file system makes and removes files a hundred times as fast as another. ``clock``: seconds, as
    `doors.Clock.perf_counter` has them. A simulated clock stands still in a turn of its loop, so that its steps depend
    on ``count`` alone."""

    __slots__ = ("_clock", "_count", "_end_s", "_left", "_step_s")

    def __init__(self, clock: Callable[[], float], count: int, step_s: float = STEP_S) -> None:
        self._clock = clock
        self._count = count
        self._step_s = step_s
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._left = self._count
        self._end_s = self._clock() + self._step_s

    def is_over(self) -> bool:
        """Whether the step is over after the thing that was just done."""
        self._left -= 1
        return self._left <= 0 or self._clock() >= self._end_s


async def resolved(result: NowOrLater[T]) -> T:
    """The value of a result, for callers that may wait."""
    return await result if is_later(result) else result


def attempt(operation: Callable[[], NowOrLater[T]], failed: Callable[[KafkaError], T]) -> NowOrLater[T]:
    """The result of an operation, or what ``failed`` makes of its KafkaError, whether it is raised at once or later."""
    try:
        result = operation()
    except KafkaError as error:
        return failed(error)
    return _attempt_later(result, failed) if is_later(result) else result


async def _attempt_later(result: Awaitable[T], failed: Callable[[KafkaError], T]) -> T:
    try:
        return await result
    except KafkaError as error:
        return failed(error)


def for_each(
    items: Iterable[T], operation: Callable[[T], NowOrLater[R]], failed: Callable[[T, KafkaError], R]
) -> NowOrLater[list[R]]:
    """Do something for each item, all at the same time. The results are in the order of the items; ``failed`` makes the
    result of an item whose operation raised a KafkaError. Any other exception is raised once all have ended."""
    all_items = list(items)
    results = _begun(all_items, operation, failed)
    waits = any(isinstance(result, _LATER) for result in results)
    return _gather(all_items, results, failed) if waits else results


async def for_each_in_turns(
    items: Sequence[T],
    operation: Callable[[T], NowOrLater[R]],
    failed: Callable[[T, KafkaError], R],
    size: int,
    cost: Callable[[T], int] = lambda _: 1,
) -> list[R]:
    """As `for_each`, but only operations of the cost ``size`` begin in one turn of the event loop, or one that is more;
    the results are collected in as many turns. No operation waits for the end of another one."""
    parts: list[tuple[Sequence[T], list[Any]]] = []
    for part in _parts(items, size, cost):
        if parts:
            await asyncio.sleep(0)
        begun = _begun(part, operation, failed)
        parts.append((part, [asyncio.ensure_future(each) if is_later(each) else each for each in begun]))
    results: list[R] = []
    for part, begun in parts:
        results += await _gather(part, begun, failed)
    return results


def _parts(items: Sequence[T], size: int, cost: Callable[[T], int]) -> Iterator[Sequence[T]]:
    start, spent = 0, 0
    for at, item in enumerate(items):
        more = cost(item)
        if at > start and spent + more > size:
            yield items[start:at]
            start, spent = at, 0
        spent += more
    if items:
        yield items[start:]


def _begun(
    items: Iterable[T], operation: Callable[[T], NowOrLater[R]], failed: Callable[[T, KafkaError], R]
) -> list[Any]:
    results: list[Any] = []
    for item in items:
        try:
            results.append(operation(item))
        except KafkaError as error:
            results.append(failed(item, error))
    return results


async def _gather(items: Sequence[T], results: list[Any], failed: Callable[[T, KafkaError], R]) -> list[R]:
    awaited = [result for result in results if isinstance(result, _LATER)]
    outcomes = iter(await asyncio.gather(*awaited, return_exceptions=True))
    values: list[R] = []
    for item, result in zip(items, results, strict=True):
        outcome = next(outcomes) if isinstance(result, _LATER) else result
        if isinstance(outcome, KafkaError):
            outcome = failed(item, outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        values.append(outcome)
    return values


def fail(future: Future[Any], error: BaseException) -> None:
    """Set an exception on a future that may no longer be awaited (the leadership moved, or the client is gone)
    without asyncio's warning "exception was never retrieved". A future that is done stays as it is."""
    if not future.done():
        future.set_exception(error)
        future.exception()


def ignore_failure(future: Future[Any]) -> None:
    """A done-callback for a future that may not be awaited: its exception, which is reported elsewhere, causes no
    warning of asyncio's either."""
    if not future.cancelled():
        future.exception()
