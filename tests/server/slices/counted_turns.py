"""The turns of the running loop, counted."""

from __future__ import annotations

import asyncio


class CountedTurns:
    """``count``: the turns since it was made. `stop` it at the end."""

    def __init__(self) -> None:
        self.count = 0
        self._next()

    def _next(self) -> None:
        self.count += 1
        self._handle = asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()
