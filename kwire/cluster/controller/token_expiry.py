"""`TokenExpiry`: removes expired delegation tokens while this broker is the controller.

What lives elsewhere: the removal (`delegation_tokens`). A broker without `delegation.token.secret.key` does not load
this module.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.controller.delegation_tokens import REMOVED_AT_ONCE_MAX

if TYPE_CHECKING:
    from kwire.cluster.controller.controller import Controller

_logger = get_logger("kwire.cluster.tokens")


class TokenExpiry:
    """A task that wakes every ``interval_ms`` (`delegation.token.expiry.check.interval.ms`)."""

    def __init__(self, controller: Controller, interval_ms: int) -> None:
        self._controller = controller
        self._interval_ms = interval_ms
        self._task = asyncio.get_running_loop().create_task(self._run(), name="token expiry")

    async def close(self) -> None:
        """End the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self._remove()
            except KafkaError as error:
                _logger.warning("expired delegation tokens cannot be removed, will retry", error=str(error))
            except Exception as error:
                _logger.error("expired delegation tokens cannot be removed", exc_info=error)

    async def _remove(self) -> None:
        while self._controller.active:
            if await self._controller.delegation_tokens.remove_expired() < REMOVED_AT_ONCE_MAX:
                return
