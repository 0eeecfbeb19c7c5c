"""`Answers`: what several pages ask of a cluster at the same time is asked of its brokers once.

Pages that are open ask again every few seconds. An answer serves all that ask for the same within `FRESH_S`, and for
longer if it has cost the cluster much. After a change that is made through the console there are no older ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

FRESH_S: Final = 1.0
"""For how long an answer serves others: well below the five seconds after which pages ask again."""
SHARE: Final = 20
"""An answer serves for so many times as long as it took: a large cluster has little work with pages that are open."""
FRESH_MAX_S: Final = 10.0
KEPT_MAX: Final = 64
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of all answers together; a larger one is shared by those that wait for it only."""


class Answers:
    """The answers of one cluster, as bytes of JSON by what was asked."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, bytes]] = {}
        self._kept_bytes = 0
        self._asked: dict[str, asyncio.Task[bytes]] = {}

    async def get(self, key: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer to ``key``: one that was given a moment ago, the one that others wait for, or that of ``ask``,
        whose failure is that of all who wait."""
        self._forget_old()
        if key in self._kept:
            return self._kept[key][1]
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.create_task(self._ask(key, ask))
        return await asyncio.shield(asked)

    def clear(self) -> None:
        """Forget all: something has been changed. What is on its way serves those who wait, and is not kept."""
        self._kept.clear()
        self._kept_bytes = 0
        self._asked.clear()

    def close(self) -> None:
        """End what is on its way."""
        for task in self._asked.values():
            task.cancel()
        self.clear()

    async def _ask(self, key: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        mine, loop = asyncio.current_task(), asyncio.get_running_loop()
        began_s = loop.time()
        try:
            content = await ask()
            if self._asked.get(key) is mine:
                took_s = loop.time() - began_s
                self._keep(key, content, loop.time() + min(max(FRESH_S, SHARE * took_s), FRESH_MAX_S))
            return content
        finally:
            if self._asked.get(key) is mine:
                del self._asked[key]

    def _keep(self, key: str, content: bytes, until_s: float) -> None:
        self._kept[key] = (until_s, content)
        self._kept_bytes += len(content)
        while len(self._kept) > KEPT_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            self._drop(next(iter(self._kept)))

    def _forget_old(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for key in [key for key, (until_s, _) in self._kept.items() if until_s <= now_s]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        _, content = self._kept.pop(key)
        self._kept_bytes -= len(content)
