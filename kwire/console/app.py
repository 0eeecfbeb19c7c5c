"""The console's routes: the page, its files, and the HTTP API; who may ask, and what errors look like."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kwire.cli.connection.cluster import Cluster, LoginRefused
from kwire.cli.connection.errors import CommandError
from kwire.cli.output import plain
from kwire.console.access import HEADERS, Access, Asked
from kwire.console.api import brokers, group_changes, groups, security, topic_changes, topics, transactions
from kwire.console.api.changes_seen import changes_seen
from kwire.console.calls import Call
from kwire.console.clusters import Clusters, Connections
from kwire.console.events import Events, EventStream
from kwire.console.failures import Refusal, refusal_of
from kwire.console.files import PREFIX, Files
from kwire.console.records import pages, searching, tailing
from kwire.console.sessions import Sessions, Workspace

STATIC: Final = Path(__file__).parent / "static"
BODY_BYTES_MAX: Final = 12 * 1024 * 1024
_TELLING: Final = (
    "<!doctype html><html lang='en'><head><meta charset='utf-8'>{again}<title>kwire console</title></head><body>"
    "<h1>kwire console</h1><p>This page needs the address that <code>kwire console</code> has written to its "
    "terminal: it ends in <code>?token=</code> and a token{expired}.</p></body></html>"
)
_AGAIN: Final = "<meta http-equiv='refresh' content='0'>"
"""A link on another site comes without the cookie (SameSite=Strict); loaded again, the page has it."""


class Settings(NamedTuple):
    """What a console may do."""

    allow_changes: bool


Action = Callable[[Cluster, Call], Awaitable[Any]]


def _sizes_or_topic(cluster: Cluster, call: Call) -> Awaitable[Any]:
    """``/api/topics/sizes?names=…``; without names it is a topic called ``sizes``."""
    if "names" in call.query:
        return topics.sizes(cluster, call)
    return topics.one_topic(cluster, call._replace(path={"topic": "sizes"}))


READING: Final[list[tuple[str, str, Action]]] = [
    ("GET", "/api/configs/brokers/{id}", brokers.broker_configs),
    ("GET", "/api/topics/{topic}", topics.one_topic),
    ("GET", "/api/topics/{topic}/messages", pages.list_messages),
    ("GET", "/api/topics/{topic}/messages/{partition}/{offset}", pages.whole_message),
]
POLLED: Final[list[tuple[str, Action]]] = [
    ("/api/brokers", brokers.list_brokers),
    ("/api/topics", topics.list_topics),
    ("/api/topics/sizes", _sizes_or_topic),
    ("/api/topics/{topic}/groups", groups.topic_groups),
    ("/api/topics/{topic}/producers", topics.producers),
    ("/api/groups", groups.list_all),
    ("/api/transactions", transactions.list_transactions),
    ("/api/transactions/{id:path}", transactions.one_transaction),
    ("/api/acls", security.acls),
    ("/api/users", security.users),
    ("/api/quotas", security.quotas),
]
"""What open pages ask again every few seconds; pages that ask at the same time share an answer (`Answers`)."""
CHANGING: Final[list[tuple[str, str, Action]]] = [
    ("POST", "/api/topics", topic_changes.create_topic),
    ("DELETE", "/api/topics/{topic}", topic_changes.delete_topic),
    ("POST", "/api/topics/{topic}/partitions", topic_changes.add_partitions),
    ("PATCH", "/api/topics/{topic}/configs", topic_changes.alter_configs),
    ("POST", "/api/topics/{topic}/messages", topic_changes.write_message),
]
STREAMS: Final[list[tuple[str, Callable[[Cluster, Call], Events]]]] = [
    ("/api/topics/{topic}/search", searching.search),
    ("/api/topics/{topic}/tail", tailing.tail),
]
# A group's id may have slashes: longer paths come first.
READING_BY_GROUP: Final[list[tuple[str, str, Action]]] = [
    ("POST", "/api/groups/{group:path}/seek", group_changes.seek),
    ("GET", "/api/groups/{group:path}", groups.one_group),
]
CHANGING_BY_GROUP: Final[list[tuple[str, str, Action]]] = [
    ("DELETE", "/api/groups/{group:path}/offsets", group_changes.delete_offsets),
    ("DELETE", "/api/groups/{group:path}", group_changes.delete_group),
]


class Guard:
    """Lets requests through to an application that `Access` allows, and adds headers to every response."""

    def __init__(self, app: ASGIApp, access: Access, admits: Callable[[Asked], bool]) -> None:
        self._app = app
        self._access = access
        self._admits = admits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            return
        is_api = scope["path"].startswith("/api/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        response = self._refused(_asked(scope), is_api)
        await (response or self._app)(scope, receive, send_with_headers)

    def _refused(self, asked: Asked, is_api: bool) -> Response | None:
        """The response to a request that goes no further."""
        try:
            self._access.check(asked)
            if is_api and not self._admits(asked):
                raise Refusal(401, "unauthorized", "the token of this console is missing, wrong or expired")
        except Refusal as refusal:
            return JSONResponse(refusal.body(), refusal.status)
        return None


def _asked(scope: Scope) -> Asked:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return Asked(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)


class Console:
    """The application. What it shows are ``clusters``, to all who have the token, or those of `Sessions`."""

    def __init__(self, clusters: Clusters | Sessions, access: Access, settings: Settings) -> None:
        self._sessions = clusters if isinstance(clusters, Sessions) else None
        self._shared = None if isinstance(clusters, Sessions) else Workspace(clusters)
        self._access = access
        self._settings = settings
        self._files = Files(STATIC)

    def app(self) -> ASGIApp:
        """What uvicorn runs."""
        routes = [
            Route("/", self._page),
            Route("/api/session", self._session),
            Route("/api/login", self._log_in, methods=["POST"]),
            Route("/api/logout", self._log_out, methods=["POST"]),
            Route("/api/clusters", self._statuses),
            Route("/api/brokers/rates", self._rates),
            *(self._polled(path, action) for path, action in POLLED),
            *(self._route(method, path, action) for method, path, action in READING),
            *(self._route(method, path, action, changing=True) for method, path, action in CHANGING),
            *(self._stream(path, source) for path, source in STREAMS),
            Route("/api/events", self._changes_seen),
            Route("/api/groups/{group:path}/history", self._history),
            *(self._route(method, path, action) for method, path, action in READING_BY_GROUP),
            *(self._route(method, path, action, changing=True) for method, path, action in CHANGING_BY_GROUP),
            Route("/api/{rest:path}", _no_such),
            Route(PREFIX + "{version}/{name:path}", self._files.serve),
        ]
        handlers: dict[Any, Any] = {
            Refusal: _refused,
            CommandError: _failed,
            **({} if self._sessions is None else {LoginRefused: _login_again}),
            TimeoutError: _late,
            HTTPException: _http_failure,
        }
        return Guard(Starlette(routes=routes, exception_handlers=handlers), self._access, self._admits)

    async def warm(self) -> None:
        """Connect to the clusters before the first page asks; with `Sessions` there is nobody to connect as."""
        if self._shared is not None:
            await self._shared.clusters.warm()

    def close(self) -> None:
        """Stop what goes on in the background; streams end."""
        for each in (self._shared, self._sessions):
            if each is not None:
                each.close()

    def _admits(self, asked: Asked) -> bool:
        """Whether a request may go on. Where people log in, `_workspace` decides."""
        return self._sessions is not None or self._access.is_allowed(asked)

    def _workspace(self, request: Request) -> Workspace:
        """What a request may see. `Refusal` if nobody has logged in."""
        if self._shared is not None:
            return self._shared
        assert self._sessions is not None
        session = self._sessions.find(self._access.of_cookie(_asked(request.scope)))
        if session is None:
            raise Refusal(401, "login_needed", "log in first")
        return session.workspace

    async def _session(self, request: Request) -> Response:
        """Whether people log in here, where to, and as whom this one has."""
        if self._sessions is None:
            return JSONResponse({"login": False, "clusters": [], "users": {}})
        session = self._sessions.find(self._access.of_cookie(_asked(request.scope)))
        users = {} if session is None else session.users
        return JSONResponse({"login": True, "clusters": self._sessions.names, "users": users})

    async def _log_in(self, request: Request) -> Response:
        sessions, body = self._sessions, Call({}, {}, await _body(request), False, 0)
        if sessions is None:
            raise Refusal(404, "unknown_path", "this console has a token; --login lets people log in")
        cluster, name, password = (body.field(field, str) for field in ("cluster", "user", "password"))
        identity = await sessions.log_in(self._access.of_cookie(_asked(request.scope)), cluster, name, password)
        return JSONResponse(
            {"cluster": cluster, "user": name}, headers={"set-cookie": self._access.set_cookie(identity)}
        )

    async def _log_out(self, request: Request) -> Response:
        if self._sessions is not None:
            self._sessions.log_out(self._access.of_cookie(_asked(request.scope)))
        return JSONResponse({})

    def _route(self, method: str, path: str, action: Action, *, changing: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            connections, call = await self._call(request, self._workspace(request))
            if changing or call.executes:
                call.check_changes()
            async with connections.open() as cluster:
                result = await action(cluster, call)
            if request.method != "GET":
                connections.answers.clear()
            return JSONResponse(plain(result))

        return Route(path, endpoint, methods=[method])

    def _polled(self, path: str, action: Action) -> Route:
        """A route whose answer is shared."""

        async def endpoint(request: Request) -> Response:
            connections, call = await self._call(request, self._workspace(request))
            return await _shared(request, connections, lambda cluster: action(cluster, call))

        return Route(path, endpoint, methods=["GET"])

    async def _rates(self, request: Request) -> Response:
        workspace = self._workspace(request)
        connections, _ = await self._call(request, workspace)
        return await _shared(request, connections, workspace.rates_of(connections.target.name).rates)

    def _stream(self, path: str, source: Callable[[Cluster, Call], Events]) -> Route:
        """A route whose response is a stream of events."""

        async def endpoint(request: Request) -> EventStream:
            workspace = self._workspace(request)
            connections, call = await self._call(request, workspace)

            async def events() -> Events:
                async with connections.open_stream() as cluster, aclosing(source(cluster, call)) as found:
                    async for each in found:
                        yield each

            return EventStream(events, workspace.closing)

        return Route(path, endpoint, methods=["GET"])

    async def _changes_seen(self, request: Request) -> EventStream:
        workspace = self._workspace(request)
        connections, call = await self._call(request, workspace)
        return EventStream(lambda: changes_seen(connections, call), workspace.closing)

    async def _history(self, request: Request) -> Response:
        workspace = self._workspace(request)
        connections, call = await self._call(request, workspace)
        return JSONResponse(plain(await workspace.histories.history(connections, call)))

    async def _call(self, request: Request, workspace: Workspace) -> tuple[Connections, Call]:
        connections = workspace.clusters.named(request.query_params.get("cluster"))
        body = await _body(request) if request.method not in ("GET", "HEAD") else None
        allowed, timeout_s = self._settings.allow_changes, connections.target.timeout_s
        query = dict(request.query_params)
        decoder = None if query.get("decode") == "0" else connections.decoder
        return connections, Call(request.path_params, query, body, allowed, timeout_s, decoder)

    async def _page(self, request: Request) -> Response:
        """The page; whoever comes with the token gets the cookie."""
        asked = _asked(request.scope)
        given = self._access.given(asked)
        if not self._admits(asked):
            # From elsewhere and without the cookie: once more, as if from here.
            again = given is None and asked.header("sec-fetch-site") in ("cross-site", "same-site")
            expired = "" if given is None else "; the one given is wrong, or has expired"
            return HTMLResponse(_TELLING.format(again=_AGAIN if again else "", expired=expired), 401)
        response = HTMLResponse(self._files.page("" if self._shared is None else self._shared.clusters.first))
        if given is not None and "token" in request.query_params and self._sessions is None:
            response.headers["set-cookie"] = self._access.set_cookie(given)
        return response

    async def _statuses(self, request: Request) -> Response:
        return JSONResponse(plain(await self._workspace(request).clusters.statuses()))


async def _shared(request: Request, connections: Connections, ask: Callable[[Cluster], Awaitable[Any]]) -> Response:
    """The answer to a request, which others may have asked for as well."""

    async def asked() -> bytes:
        async with connections.open() as cluster:
            return _json(plain(await ask(cluster)))

    key = f"{request.url.path}?{request.url.query}"
    return Response(await connections.answers.get(key, asked), media_type="application/json")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def _body(request: Request) -> Any:
    """The JSON of a request. `Refusal` if it is too large or none."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > BODY_BYTES_MAX:
            raise Refusal(413, "too_large", f"a request has at most {BODY_BYTES_MAX} bytes")
    if not content:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad_request", f"the body is not JSON: {error}") from None


async def _no_such(request: Request) -> Response:
    raise Refusal(404, "unknown_path", f"there is no {request.url.path}")


async def _refused(request: Request, refusal: Refusal) -> Response:
    return JSONResponse(refusal.body(), refusal.status)


async def _late(request: Request, error: TimeoutError) -> Response:
    return await _refused(request, Refusal(504, "timeout", "the cluster takes too long"))


async def _http_failure(request: Request, error: HTTPException) -> Response:
    return await _refused(request, Refusal(error.status_code, "http", error.detail))


async def _login_again(request: Request, error: LoginRefused) -> Response:
    return await _refused(request, Refusal(401, "login_needed", str(error)))


async def _failed(request: Request, error: CommandError) -> Response:
    return await _refused(request, refusal_of(error))
