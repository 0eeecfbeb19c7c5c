"""Outcomes of futures."""

from __future__ import annotations

import asyncio
from typing import Any


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Let a future fail that perhaps nobody waits for any more: a broker that lost a leadership or a client that has
    gone is no reason for the complaint that asyncio would make on stderr. Nothing happens to one that is done."""
    if not future.done():
        future.set_exception(error)
        future.exception()


def heed(future: asyncio.Future[Any]) -> None:
    """A callback for a future that perhaps nobody waits for: its failure, if any, is known to whom it concerns, and is
    no reason for asyncio's complaint either."""
    if not future.cancelled():
        future.exception()
