"""Requests about very many partitions or resources: done in slices, between which other clients get their turn.

One turn of the event loop should take few milliseconds: whoever writes a record meanwhile waits for its end. The state
may change between two slices, as it may between two requests. A long response is encoded in slices, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.base.futures import NowOrLater, resolved
from kwire.codec.primitives import varint
from kwire.codec.protocol import encode

if TYPE_CHECKING:
    from kwire.codec.message import Message
    from kwire.handlers.context import RequestContext

_pack_count = Struct(">i").pack

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


async def encode_in_slices(context: RequestContext, response: Message, field: str, size: int) -> None:
    """Encode a response whose array ``field`` may have very many elements, ``size`` of them in one turn, for the
    dispatcher to send. With quotas, the dispatcher encodes it in one turn: it may say for how long the client is
    throttled."""
    elements = getattr(response, field)
    if len(elements) <= size or context.services.quotas.active:
        return
    version = context.api_version

    def encoded(some: Sequence[Any]) -> bytes:
        setattr(response, field, some)
        try:
            return encode(response, version)
        finally:
            setattr(response, field, elements)

    empty, one = encoded([]), encoded(elements[:1])
    at = next(place for place in range(len(empty)) if empty[place] != one[place])  # the number of elements
    compact = one[at] == 2
    head, tail = empty[: at if compact else at - 3], empty[at + 1 :]
    parts = [head, _count(len(elements), compact)]
    for start in range(0, len(elements), size):
        await asyncio.sleep(0)
        some = elements[start : start + size]
        data = encoded(some)
        parts.append(data[len(head) + len(_count(len(some), compact)) : len(data) - len(tail)])
    context.charged = [b"".join((*parts, tail))]


def _count(number: int, compact: bool) -> bytes:
    return varint(number + 1) if compact else _pack_count(number)
