"""A client of an ASGI application without sockets: the headers are exactly those that the test gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote

from harness.waiting import PATIENCE_S

App = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


class Answer(NamedTuple):
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """What it has."""
        return json.loads(self.content)


class Event(NamedTuple):
    """A server-sent event."""

    name: str
    data: Any


class AsgiClient:
    """Asks one application. ``headers``: those of every request, by names in lower case."""

    def __init__(self, app: App, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = dict(headers)

    async def get(self, target: str, **headers: str) -> Answer:
        """The response to a GET."""
        return await self.ask("GET", target, None, headers)

    async def ask(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """The response to a request; ``body`` is sent as JSON. A header that is None is left out."""
        parts: list[bytes] = []
        start: MutableMapping[str, Any] = {}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        content = b"" if body is None else json.dumps(body).encode()
        messages = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.sleep(PATIENCE_S)  # the client stays
            return {"type": "http.disconnect"}

        async with asyncio.timeout(PATIENCE_S):
            await self._app(self._scope(method, target, headers or {}), receive, send)
        named = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], named, b"".join(parts))

    @asynccontextmanager
    async def events(self, target: str) -> AsyncGenerator[AsyncGenerator[Event]]:
        """The server-sent events of a response; its end closes the connection, as a browser would. A response that is
        no stream is an AssertionError with its text."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> MutableMapping[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                queue.put_nowait(message.get("body", b""))

        async def run() -> None:
            try:
                await self._app(self._scope("GET", target, {}), receive, send)
            finally:
                queue.put_nowait(None)

        task = asyncio.create_task(run())
        try:
            yield _events(queue)
        finally:
            gone.set()
            async with asyncio.timeout(PATIENCE_S):
                await task

    def _scope(self, method: str, target: str, headers: Mapping[str, str | None]) -> MutableMapping[str, Any]:
        path, _, query = target.partition("?")
        sent = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value is not None],
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 9021),
        }


async def _events(queue: asyncio.Queue[bytes | None]) -> AsyncGenerator[Event]:
    text = b""
    while True:
        async with asyncio.timeout(PATIENCE_S):
            part = await queue.get()
        if part is None:
            assert not text.strip(), text
            return
        text += part
        while b"\n\n" in text:
            event, _, text = text.partition(b"\n\n")
            if event.startswith(b":"):
                continue
            lines = dict(line.split(b": ", 1) for line in event.splitlines())
            yield Event(lines[b"event"].decode(), json.loads(lines[b"data"]))
