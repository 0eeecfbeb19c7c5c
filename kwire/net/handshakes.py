"""Whose TLS handshake goes on next: computation that is done in steps, between the requests of others.

This module is imported with the first TLS connection. What lives elsewhere: the handshake itself (`tls_connection`),
and the limits on time and memory until it is complete (`newcomers`).
"""

from __future__ import annotations

import ssl
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from kwire.base.futures import Pace
from kwire.net.tls import RecordBuffers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

STEPS_PER_TURN: Final = 8
"""Steps of handshakes in one turn of the loop, at most."""

STEPS_S: Final = 0.004
"""No further step begins in a turn after this time. A step after another one finds OpenSSL's code and tables in the
processor's caches: with two steps in a turn, a handshake takes 3 % more."""


class Shaking(Protocol):
    """A connection whose handshake can go on."""

    def step(self) -> None:
        """Do what can be done now. Never raises."""


class Handshakes:
    """What the TLS connections of a broker share: buffers, and the queue of those whose handshake can go on.
    ``perf_counter``: seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, perf_counter: Callable[[], float]) -> None:
        self._loop = loop
        self._pace = Pace(perf_counter, STEPS_PER_TURN, STEPS_S)
        self._queue: deque[Shaking] = deque()
        self._context: ssl.SSLContext | None = None
        self._may_ask = False
        self.buffers = RecordBuffers()

    def may_ask_for_certificate(self, context: ssl.SSLContext) -> bool:
        """Whether clients may send certificates with this context. What holds for the last one is known: reading
        `verify_mode` takes five calls."""
        if context is not self._context:
            self._context = context
            self._may_ask = context.verify_mode != ssl.CERT_NONE
        return self._may_ask

    def enqueue(self, connection: Shaking) -> None:
        """Call the connection's `step` when it is its turn."""
        if not self._queue:
            self._loop.call_soon(self._turn)
        self._queue.append(connection)

    def _turn(self) -> None:
        queue, pace = self._queue, self._pace
        pace.begin()
        while queue:
            queue[0].step()
            queue.popleft()
            if pace.is_over():
                break
        if queue:
            self._loop.call_soon(self._turn)
