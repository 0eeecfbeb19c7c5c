"""Waiting by polling, where there is no event to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Poll ``condition`` until it is true; `TimeoutError` otherwise."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
