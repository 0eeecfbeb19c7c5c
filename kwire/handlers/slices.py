"""Requests about very many partitions or resources: done in slices, between which other clients get their turn.

One turn of the event loop should take less than a millisecond: whoever writes a record meanwhile waits for its end.
The state may change between two slices, as it may between two requests. A long response is encoded in slices, too, and
a long request decoded (`large_requests`); both are freed in slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kwire.base.futures import NowOrLater, in_turns, resolved, then
from kwire.codec import protocol
from kwire.handlers.context import Unthrottled

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

    from kwire.codec.message import Message
    from kwire.handlers.context import RequestContext

SLICE_ELEMENTS: Final = 250
"""Elements of a message that are decoded or encoded before other clients get their turn: under half a millisecond."""

SLICE_PARTITIONS: Final = 100
"""Partitions that are looked up before other clients get their turn: about half a millisecond."""

LARGE_BYTES: Final = 16 * 1024
"""A request's body of this size is decoded in slices: it may have two thousand elements."""

FREED_ELEMENTS: Final = 200
"""Elements of a message's longest lists that are freed before other clients get their turn: a topic with all of its
properties takes 6 us."""

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
U = TypeVar("U")
C = TypeVar("C", bound="SupportsRichComparison")
M = TypeVar("M", bound="Message")


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


def each_partition(
    context: RequestContext,
    topics: Sequence[tuple[T, Sequence[P]]],
    work: Callable[[T, P], R],
    described: Callable[[T, list[R]], U],
    response: Callable[[list[U]], M],
) -> NowOrLater[M]:
    """The response that ``response`` makes of what ``described`` makes of each topic and the results for its
    partitions. Those of very many partitions are made in slices, and so is the encoded response."""
    if sum(len(partitions) for _, partitions in topics) <= SLICE_PARTITIONS:
        return response([described(topic, [work(topic, each) for each in partitions]) for topic, partitions in topics])
    made = then(in_turns(_each_partition(topics, work, described)), response)
    return then(made, partial(encode_in_slices, context))


def _each_partition(
    topics: Sequence[tuple[T, Sequence[P]]], work: Callable[[T, P], R], described: Callable[[T, list[R]], U]
) -> Generator[None, None, list[U]]:
    done: list[U] = []
    room = SLICE_PARTITIONS
    for topic, partitions in topics:
        results: list[R] = []
        for each in partitions:
            if not room:
                yield
                room = SLICE_PARTITIONS
            results.append(work(topic, each))
            room -= 1
        done.append(described(topic, results))
    return done


def sorted_in_steps(items: Sequence[C], size: int) -> Generator[None, None, list[C]]:
    """The items in their order; a step sorts or merges ``size`` of them."""
    runs = []
    for start in range(0, len(items), size):
        runs.append(sorted(items[start : start + size]))
        yield
    merged = merge(*runs)
    ordered: list[C] = []
    while part := list(islice(merged, size)):
        ordered += part
        yield
    return ordered


async def encode_in_slices(context: RequestContext, response: M) -> M:
    """Encode a response that may have very many elements, `SLICE_ELEMENTS` of them in one turn, for the dispatcher to
    send; returns it. If it turns out that the client is throttled, the dispatcher encodes the response anew: it says
    for how long."""
    keep_encoded(context, await in_turns(protocol.encode_in_slices(response, context.api_version, SLICE_ELEMENTS)))
    return response


async def encode_parts_in_slices(context: RequestContext, response: M) -> M:
    """`encode_in_slices` for a response with records, which are not copied."""
    steps = protocol.encode_parts_in_slices(response, context.api_version, SLICE_ELEMENTS)
    keep_encoded(context, *await in_turns(steps))
    return response


def keep_encoded(context: RequestContext, *parts: Any) -> None:
    """Have the dispatcher send a response whose bytes are known, unless its client is throttled."""
    context.charged = Unthrottled(parts) if context.services.quotas.active else list(parts)


def free_in_slices(*messages: Any) -> None:
    """Have the elements of long lists in messages, which the caller is about to drop, freed `FREED_ELEMENTS` in a turn:
    a message of 3,000 topics with all of their properties takes 17 ms. The messages stay as they are, so that others
    may keep them."""
    held: list[Any] = []
    for message in messages:
        for name in message.__slots__:
            value = getattr(message, name)
            if value.__class__ is list and len(value) > FREED_ELEMENTS:
                held += value
    empty_in_slices(held)


def empty_in_slices(held: list[Any]) -> None:
    """Empty a list whose elements may be freed by that, `FREED_ELEMENTS` in a turn. A short one is left as it is."""
    if len(held) > FREED_ELEMENTS:
        loop = asyncio.get_running_loop()
        loop.call_soon(_free, loop, held)


def _free(loop: asyncio.AbstractEventLoop, held: list[Any]) -> None:
    del held[-FREED_ELEMENTS:]
    if held:
        loop.call_soon(_free, loop, held)
