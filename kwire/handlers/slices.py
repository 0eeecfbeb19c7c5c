"""Requests about very many partitions or resources: done in slices, between which other clients get their turn.

One turn of the event loop should take few milliseconds: whoever writes a record meanwhile waits for its end. The state
may change between two slices, as it may between two requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from kwire.base.futures import NowOrLater, resolved

T = TypeVar("T")
R = TypeVar("R")


def in_slices(items: Sequence[T], work: Callable[[Sequence[T]], NowOrLater[list[R]]], size: int) -> NowOrLater[list[R]]:
    """The results of ``work`` for all items, in their order: in one call if there are at most ``size``, otherwise in
    several, each in a turn of its own."""
    return work(items) if len(items) <= size else _in_slices(items, work, size)


async def _in_slices(items: Sequence[T], work: Callable[[Sequence[T]], NowOrLater[list[R]]], size: int) -> list[R]:
    results: list[R] = []
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        results += await resolved(work(items[start : start + size]))
    return results
