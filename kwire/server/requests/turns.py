"""How much of a turn of the loop is given to requests that take long.

All connections with bytes are read in one turn of the loop, so that a hundred members that join a group at once would
keep everybody else waiting until all of them have joined. Requests that take long and come with others wait for the
next turn; once they have had `TURN_S` of one, the following ones wait, in their order, for those after it. Short
requests never wait.

What lives elsewhere: the order within a connection (`kwire.net.connection`), one request that is larger than a turn
(`kwire.handlers.slices`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

LONG_S: Final = 0.0001
"""Seconds from which on a request takes long: a few times as much as one record takes to be appended."""

TURN_S: Final = 0.0001
"""Seconds of a turn after which requests that take long wait for the next one."""


class Turns:
    """Whose turn it is among the requests that take long. ``is_over``: the next one of them has to `wait`."""

    __slots__ = ("_spent", "_waiting", "is_over")

    def __init__(self) -> None:
        self._spent = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self.is_over = False

    def spend(self, seconds: float) -> None:
        """A request took so long in this turn."""
        self._spent += seconds
        if self._spent >= TURN_S:
            self._end()

    def wait(self, start: Callable[[], None]) -> None:
        """Have a request started in one of the next turns. ``start`` must not raise."""
        self._waiting.append(start)
        self._end()

    def _end(self) -> None:
        """From now on the others wait, at first until the sockets have been read: what a loop is given in one turn it
        calls before it reads in the next one, so that the turn in which many requests came would take even longer."""
        if not self.is_over:
            self.is_over = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._next)

    def _next(self) -> None:
        """A new turn: start those that waited for it."""
        self._spent = 0.0
        while self._waiting and self._spent < TURN_S:
            self._waiting.popleft()()
        if self._waiting or self._spent >= TURN_S:
            asyncio.get_running_loop().call_soon(self._next)
        else:
            self.is_over = False
