"""Writing the changes of one share partition: one request at a time, in the order of the changes.

The persister tries again what a share coordinator could not take. If a later change were written meanwhile, the earlier
one would arrive last, with a start offset and a count of completed deliveries that are no longer true. So what changes
while a request is under way waits, and goes into the next request together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.share.partition import Write

Outcome = KafkaError | None
"""Why a write failed; None if it did not."""


class StateWriter:
    """The writes of one share partition. ``send`` writes several changes in one request, or raises; ``completed`` is
    called with each change and the outcome, before whoever waits for it goes on; ``spawn`` runs a coroutine in the
    background."""

    def __init__(
        self,
        send: Callable[[Sequence[Write]], Coroutine[Any, Any, None]],
        completed: Callable[[Write, Outcome], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._send = send
        self._completed = completed
        self._spawn = spawn
        self._waiting: list[tuple[Write, asyncio.Future[Outcome]]] = []
        self._idle: asyncio.Future[None] | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a change is not written yet."""
        return self._idle is not None

    def write(self, write: Write) -> asyncio.Future[Outcome]:
        """Write a change; the future of the outcome."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((write, done))
        if self._idle is None:
            self._idle = loop.create_future()
            self._spawn(self._run(self._idle))
        return done

    async def idle(self) -> None:
        """Return when all changes are written, or could not be."""
        if self._idle is not None:
            await asyncio.shield(self._idle)

    async def _run(self, idle: asyncio.Future[None]) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                outcome = await self._try([write for write, _ in together])
                for write, done in together:
                    self._completed(write, outcome)
                    if not done.done():
                        done.set_result(outcome)
        finally:
            self._idle = None
            idle.set_result(None)

    async def _try(self, writes: Sequence[Write]) -> Outcome:
        try:
            await self._send(writes)
        except KafkaError as error:
            return error
        except Exception:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None
