"""Server-sent events: a response that goes on until its source ends or the browser goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope, Send

from kwire.cli.connection.errors import CommandError
from kwire.cli.output import plain
from kwire.console.failures import Refusal, refusal_of

_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class Event(NamedTuple):
    """An event; ``data`` is sent as JSON."""

    name: str
    data: Any


Events = AsyncGenerator[Event]


class EventStream:
    """The response. A slow browser holds the source up; one that goes away ends it, and so does ``closing``. A failure
    is the event ``failed``, because a browser's EventSource sees nothing else of a response with an error."""

    def __init__(self, events: Callable[[], Events], closing: asyncio.Event) -> None:
        self._events = events
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        sending = asyncio.create_task(self._send(send))
        others = asyncio.create_task(_gone(receive)), asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait({sending, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *others):
                task.cancel()
            failure, *_ = await asyncio.gather(sending, *others, return_exceptions=True)
        if isinstance(failure, Exception):
            raise failure

    async def _send(self, send: Send) -> None:
        try:
            async with aclosing(self._events()) as events:
                async for each in events:
                    await send(_body(each))
        except CommandError as error:
            await send(_body(Event("failed", refusal_of(error).body())))
        except Refusal as refusal:
            await send(_body(Event("failed", refusal.body())))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _body(event: Event) -> dict[str, Any]:
    data = json.dumps(plain(event.data), ensure_ascii=False, separators=(",", ":"))
    text = f"event: {event.name}\ndata: {data}\n\n"
    return {"type": "http.response.body", "body": text.encode("utf-8", "replace"), "more_body": True}


async def _gone(receive: Receive) -> None:
    """Return when the browser has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
