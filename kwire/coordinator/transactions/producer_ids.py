"""This broker's block of producer ids, for producers with and without a transactional id.

The controller persists a block before the broker uses its first id, so that no id is used twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from kwire.base.errors import ErrorCode, KafkaError


class ProducerIds:
    """``allocate`` gets a new block from the controller, or raises KafkaError."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block: Iterator[int] = iter(())
        self._refill: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """The next id, or None if the block is used up."""
        return next(self._block, None)

    async def wait(self) -> int:
        """The next id, from a new block if necessary. Raises KafkaError."""
        while (producer_id := self.take()) is None:
            await self.refill()
        return producer_id

    async def refill(self) -> None:
        """Get a new block. Concurrent callers share one request to the controller. Raises KafkaError."""
        if self._refill is None:
            self._refill = asyncio.create_task(self._fill())
        await asyncio.shield(self._refill)

    async def _fill(self) -> None:
        try:
            self._block = iter(await self._allocate())
        except KafkaError as error:
            if error.code == ErrorCode.BROKER_ID_NOT_REGISTERED:  # not an error for clients; with this one they retry
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error
            raise
        finally:
            self._refill = None
