"""Operations that take several turns of the event loop, and those that wait for them.

A commit or a deletion of ten thousand offsets takes tens of milliseconds. It is one operation all the same: until it is
over, the shard runs no other one, so that nothing it has examined can change. The others wait in the order in which
they came, and so do the shard's timers; other shards and all other requests get their turns. Only the leadership may
end meanwhile, which `runtime` checks after every turn.

All runtimes of a coordinator share one `Turns`: even if every shard has something to do, as when a topic is deleted,
one turn of the event loop has the work of one step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from kwire.base.futures import fail

A = TypeVar("A")

Steps = Generator[None, None, None]
"""A long operation. It yields after each part that takes about a millisecond, and handles its own errors."""

WAITING_PER_TURN: Final = 20
"""Operations that have waited for a long one and run in one turn of the event loop: two or three milliseconds."""


STEP_US: Final = 1000
"""The processor time of a step, about, in microseconds."""


class EstimatedPace:
    """Says when a step of a long operation is over, by what its parts usually take."""

    __slots__ = ("_spent_us",)

    def __init__(self) -> None:
        self._spent_us = 0

    def spent(self, us: int) -> bool:
        """A part has been done. Returns whether it is the last one of this step."""
        self._spent_us += us
        if self._spent_us < STEP_US:
            return False
        self._spent_us = 0
        return True


class Turns:
    """Gives one queue after the other its turn."""

    __slots__ = ("_in_progress", "_queues")

    def __init__(self) -> None:
        self._queues: deque[OperationQueue] = deque()
        self._in_progress = False

    def add(self, queue: OperationQueue) -> None:
        """A queue has something to do. The first step is done at once, unless others are in progress."""
        self._queues.append(queue)
        if not self._in_progress:
            self._in_progress = True
            self._turn()

    def finish(self) -> None:
        """Run everything that is left now: the leaderships have ended, so all of it fails at once."""
        while self._queues:
            self._advance()

    def _turn(self) -> None:
        for _ in range(WAITING_PER_TURN):
            if not self._queues or self._advance():
                break
        if self._queues:
            self._go_on()
        else:
            self._in_progress = False

    def _go_on(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)

    def _advance(self) -> bool:
        queue = self._queues.popleft()
        stepped = queue.advance()
        if queue.held:
            self._queues.append(queue)
        return stepped


class OperationQueue:
    """The operations of one shard while a long one is not over. ``held``: others have to wait. ``over()`` is called
    when none is left."""

    __slots__ = ("_entries", "_over", "_runs", "_stepped", "_turns", "held")

    def __init__(self, turns: Turns, over: Callable[[], None]) -> None:
        self.held = False
        self._runs = False
        self._stepped = False
        self._entries: deque[Steps | Callable[[], None]] = deque()
        self._turns = turns
        self._over = over

    def begin(self, steps: Steps) -> None:
        """Run a long operation, after all that came before it."""
        self._entries.append(steps)
        if not self.held:
            self.held = True
            self._turns.add(self)

    def begin_next(self, steps: Steps) -> None:
        """Go on with the present operation in steps, before all that wait."""
        self._entries.appendleft(steps)
        if not self.held and not self._runs:
            self.held = True
            self._turns.add(self)

    def wait(self, operation: Callable[[], A | asyncio.Future[A]]) -> asyncio.Future[A]:
        """The future response of an operation that runs after all that came before it."""
        response: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._entries.append(lambda: _run(operation, response))
        return response

    def advance(self) -> bool:
        """Run the first operation, or its next step. Returns whether it was a step of several."""
        first = self._entries[0]
        stepped = self._stepped
        if isinstance(first, Generator):
            for _ in first:
                self._stepped = True
                return True
            self._entries.popleft()
            self._stepped = False
        else:
            self._entries.popleft()
            self.held = False  # it runs now
            self._runs = True
            try:
                first()
            finally:
                self._runs = False
                self.held = True
        if not self._entries:
            self.held = False
            self._over()
        return stepped


def _run(operation: Callable[[], A | asyncio.Future[A]], response: asyncio.Future[A]) -> None:
    """Run an operation whose caller waits for ``response``."""
    try:
        result = operation()
    except Exception as error:
        fail(response, error)
        return
    if isinstance(result, asyncio.Future):
        result.add_done_callback(lambda done: _pass_on(done, response))
    elif not response.done():  # a done future: the client has disconnected
        response.set_result(result)


def _pass_on(done: asyncio.Future[Any], response: asyncio.Future[Any]) -> None:
    if done.cancelled():
        response.cancel()
    elif (error := done.exception()) is not None:
        fail(response, error)
    elif not response.done():
        response.set_result(done.result())
