"""Waiting by polling, where there is no event to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60.0
"""How long a test waits at least for what must happen; a busy machine may need most of it."""


async def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """Poll ``condition`` until it is true; `TimeoutError` otherwise."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
