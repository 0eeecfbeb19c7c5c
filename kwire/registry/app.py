"""The routes of the REST interface: what runs in this instance, what is written by the leader, and what errors are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kwire import __version__
from kwire.base.logging import get_logger
from kwire.registry import failures
from kwire.registry.access import CHALLENGE, is_allowed
from kwire.registry.actions import READING, WRITING, Action
from kwire.registry.calls import BODY_BYTES_MAX, CONTENT_TYPE, Call, check_content_type, chosen_type, parsed_body
from kwire.registry.failures import Refusal
from kwire.registry.forwarding import FORWARDED, OFFSET, Forwarder
from kwire.registry.instance import Instance
from kwire.registry.operations.requests import wanted

_log = get_logger("kwire.registry")
_CONTEXTS: Final = "/contexts/"
_DRAINED_MAX: Final = 8 * BODY_BYTES_MAX


class RegistryApp:
    """The interface of one instance. ``users``: passwords by names; None lets everybody in."""

    def __init__(self, instance: Instance, forwarder: Forwarder, users: Mapping[str, str] | None) -> None:
        self._instance = instance
        self._forwarder = forwarder
        self._users = users

    def app(self) -> ASGIApp:
        """What uvicorn runs."""
        routes = [
            *(self._reading(path, action) for path, action in READING),
            *(self._writing(method, path, action) for method, path, action in WRITING),
            Route("/v1/metadata/version", self._version),
        ]
        handlers: dict[Any, Any] = {Refusal: _refused, HTTPException: _http_failure, Exception: _unexpected}
        return _Gate(Starlette(routes=routes, exception_handlers=handlers), self._users)

    def _reading(self, path: str, action: Action) -> Route:
        async def endpoint(request: Request) -> Response:
            kind = chosen_type(request.headers.get("accept"))
            content = await _content(request) if request.method == "POST" else b""
            call = _call(request, content)
            await self._prepare(call)
            return _answer(action(self._instance, call), kind)

        methods = ["POST"] if path in POSTED else ["GET"]
        return Route(path, endpoint, methods=methods)

    def _writing(self, method: str, path: str, action: Action) -> Route:
        async def endpoint(request: Request) -> Response:
            kind = chosen_type(request.headers.get("accept"))
            content = await _content(request)
            call = _call(request, content)
            leader = await self._instance.leader_ready()
            if leader != self._instance.identity:
                return await self._forwarded(request, content, leader.url)
            await self._prepare(call)
            written = await self._instance.write(lambda: action(self._instance, call))
            return _answer(written.answer, kind, {OFFSET: str(written.next_offset)})

        return Route(path, endpoint, methods=[method])

    async def _prepare(self, call: Call) -> None:
        """Parse the schema of a request, if there is one."""
        if isinstance(call.body, dict) and "schema" in call.body:
            found = wanted(call.body)
            await self._instance.schemas.prepare(call.subject, found.text, found.type, found.references)

    async def _forwarded(self, request: Request, content: bytes, url: str) -> Response:
        if FORWARDED in request.headers:
            raise failures.no_leader("The request has been forwarded to an instance that does not lead")
        target = request.scope["original_target"]
        answer = await self._forwarder.forward(url, request.method, target, dict(request.headers), content)
        if answer.offset is not None:
            await self._instance.reach(answer.offset)
        return Response(answer.body, answer.status, media_type=answer.content_type or CONTENT_TYPE)

    async def _version(self, request: Request) -> Response:
        return _answer({"version": f"kwire {__version__}", "commitId": ""}, chosen_type(request.headers.get("accept")))


POSTED: Final = frozenset(
    {
        "/subjects/{subject}",
        "/compatibility/subjects/{subject}/versions/{version}",
        "/compatibility/subjects/{subject}/versions",
    }
)
"""Paths that are read by POST, because the request has a schema."""


class _Gate:
    """In front of all routes: who may ask, and the context that a path begins with (``/contexts/NAME/…``)."""

    def __init__(self, inner: ASGIApp, users: Mapping[str, str] | None) -> None:
        self._inner = inner
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer that a login is needed."""
        if scope["type"] != "http":
            return
        if self._users is not None:
            headers = {name: value for name, value in scope["headers"] if name == b"authorization"}
            given = headers.get(b"authorization", b"").decode("latin-1")
            if not is_allowed(self._users, given):
                body = {"error_code": 401, "message": "Unauthorized"}
                await _answer(body, CONTENT_TYPE, {"www-authenticate": CHALLENGE}, 401)(scope, receive, send)
                return
        await self._inner(_with_context(scope), receive, send)


def _with_context(scope: Scope) -> Scope:
    """The request with its context aside, and subjects undivided by what a %2F in their names stands for."""
    path = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else scope["path"]
    query = scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    context = ""
    if path.startswith(_CONTEXTS):
        from urllib.parse import unquote

        name, _, rest = path.removeprefix(_CONTEXTS).partition("/")
        context, path = _prefix(unquote(name)), f"/{rest}"
    path = path.rstrip("/") or "/"
    return {**scope, "path": path, "context": context, "original_target": target}


def _prefix(name: str) -> str:
    """The prefix of subjects in a context: ``:.name:``; "" for the default one."""
    name = name.strip(":")
    name = name if name.startswith(".") else f".{name}"
    return "" if name == "." else f":{name}:"


def _call(request: Request, content: bytes) -> Call:
    from urllib.parse import unquote

    path = {name: unquote(value) for name, value in request.path_params.items()}
    query = request.query_params
    metadata = dict(zip(query.getlist("key"), query.getlist("value"), strict=False))
    return Call(path, dict(query), parsed_body(content), request.scope["context"], metadata)


async def _content(request: Request) -> bytes:
    """The body. `Refusal` if it is too large, or of another type. What is too large is read up to `_DRAINED_MAX` and
    forgotten: a client that still sends does not read the answer."""
    found, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= BODY_BYTES_MAX:
            found += part
        elif size > _DRAINED_MAX:
            break
    if size > BODY_BYTES_MAX:
        raise Refusal(413, 413, f"A request has at most {BODY_BYTES_MAX} bytes")
    if found:
        check_content_type(request.headers.get("content-type"))
    return bytes(found)


def _answer(value: Any, kind: str, headers: Mapping[str, str] | None = None, status: int = 200) -> Response:
    """JSON; a text stands for itself (the schema alone)."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, dict(headers or {}), media_type=kind)


async def _refused(request: Request, refusal: Refusal) -> Response:
    return _answer(refusal.body(), CONTENT_TYPE, status=refusal.status)


async def _http_failure(request: Request, error: HTTPException) -> Response:
    message = f"HTTP {error.status_code} {error.detail}"
    return _answer({"error_code": error.status_code, "message": message}, CONTENT_TYPE, status=error.status_code)


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("a request failed", method=request.method, path=request.url.path, error=repr(error))
    return _answer({"error_code": 50001, "message": "Internal Server Error"}, CONTENT_TYPE, status=500)
