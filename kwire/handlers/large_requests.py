"""Large requests are decoded in slices, between which other clients get their turn (`slices`).

A request of thousands of topics or partitions takes tens of milliseconds to decode: 1 to 5 us for each element. What
comes of it is the same as of a small request. While it is decoded, the connection's next request waits, as it does
while a request is pending.

A request that turns out to be malformed closes the connection, as the dispatcher does it with a small one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kwire.base.futures import in_turns, resolved
from kwire.codec.errors import CodecError
from kwire.codec.protocol import decode, decode_in_slices, request_class
from kwire.handlers.api import REQUEST_BUDGET, Api, CloseConnection
from kwire.handlers.slices import LARGE_BYTES, SLICE_ELEMENTS

if TYPE_CHECKING:
    from kwire.codec.message import Message
    from kwire.handlers.context import Decisions, RequestContext, Services


def sliced(api: Api) -> Api:
    """An API whose large requests are decoded in slices before they are handled."""

    def begin(
        frame: memoryview, position: int, _version: int, _correlation_id: int, _services: Services, _: Decisions
    ) -> Callable[[RequestContext], Awaitable[Any]] | None:
        if len(frame) - position < LARGE_BYTES:
            return None
        return lambda context: _handle(api, frame, position, context)

    return dataclasses.replace(api, fast_path=lambda _version: begin)


async def decoded(cls: type[Message], version: int, data: bytes | memoryview, position: int, budget: int) -> Message:
    """The message in these bytes, from a position on; a large one is decoded in slices. CodecError."""
    if len(data) - position < LARGE_BYTES:
        return decode(cls, version, data, position, budget)[0]
    return (await in_turns(decode_in_slices(cls, version, data, position, budget, SLICE_ELEMENTS)))[0]


async def _handle(api: Api, frame: memoryview, position: int, context: RequestContext) -> Any:
    """What the handler returns, once the request is decoded and its operations are authorised."""
    version = context.api_version
    try:
        context.request = await decoded(request_class(api.key), version, frame, position, REQUEST_BUDGET)
    except CodecError as error:
        context.charged = []  # nothing can be charged for what nobody can read
        raise CloseConnection(f"malformed request: {error}") from None
    authorizer = context.services.authorizer
    if api.operations is not None and not authorizer.allows_all:
        for operation in api.operations(context.request, context):
            authorizer.require(context, operation)
    return await resolved(api.handle(context.request, context))
