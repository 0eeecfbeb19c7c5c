"""From a request's frame to the response's: header, API, body, authorisation, handler, bytes.

- A frame that is no valid request (malformed, unknown API, version not served) closes the connection, as in Kafka;
  only ApiVersions responds to unknown versions.
- A handler that returns its response at once costs no task: the response is passed on before `dispatch` returns. An
  awaitable takes a slot in the order of the connection.
- Requests that take long wait for the next turn of the loop once others of their kind have had their share of this one
  (`kwire.server.requests.turns`).
- If a handler fails, the client gets its API's well-formed error response; unexpected failures are logged.

What lives elsewhere: order, back-pressure and sending (`kwire.net`), what requests mean (`kwire.handlers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kwire.base.errors import ErrorCode
from kwire.base.logging import DEBUG, TRACE, get_logger
from kwire.base.metrics import FETCH_CONSUMER, FETCH_FOLLOWER
from kwire.codec.errors import CodecError
from kwire.codec.protocol import ApiKey, decode, decode_request_header, encode_parts
from kwire.handlers.api import REQUEST_BUDGET, CloseConnection, error_of
from kwire.handlers.context import Unthrottled
from kwire.handlers.slices import LARGE_BYTES, free_in_slices
from kwire.net.connection import Connection, InvalidFrame
from kwire.security.principals import ANONYMOUS
from kwire.server.requests.clients import Client
from kwire.server.requests.exchange import Exchange
from kwire.server.requests.routes import Route, api_name, frame_of, pack_header
from kwire.server.requests.turns import LONG_S, Turns

if TYPE_CHECKING:
    from kwire.handlers.context import Services
    from kwire.handlers.data.produce.fast_path import Append
    from kwire.handlers.registry import Registry
    from kwire.net.settings import Part
    from kwire.quotas.managers import ClientSensors

_read_api = Struct(">hh").unpack_from  # API key, version
_read_start = Struct(">ii").unpack_from  # API key and version as one number, correlation id
_START_SIZE: Final = 8
_KEPT_HEADER_MAX: Final = 512
"""The size of the largest header that is kept to recognize the next request like it."""
_pack_throttle = Struct(">i").pack

_THROTTLE_SIZE: Final = 4

GROUPED_BYTES: Final = 64 * 1024
"""Batches up to this size are appended together. A file system takes a third less time for 40 KiB than for three times
16 KiB, and reads them back from larger pieces of its cache. At most one larger batch comes at a time."""

APPENDS_MAX: Final = 64
"""Appends that are put off together; more of them would make the first wait too long."""

EXEMPT: Final = (ApiKey.WRITE_TXN_MARKERS, ApiKey.ENVELOPE)
"""APIs of brokers whose time is not limited, beside a follower's Fetch. It is limited for a client that is refused. A
request in an Envelope has its own quotas."""

REQUEST_LOGGER: Final = "kafka.request.logger"
"""Kafka's logger of requests: DEBUG logs a line per request, TRACE also the request and the response."""


C = TypeVar("C", bound=Client)


class Dispatcher:
    """Handles the requests of all connections of one broker. ``stands``: whether this broker may decide what clients
    may do; while it must not, requests close their connections. None: it always may."""

    def __init__(
        self,
        services: Services,
        registry: Registry,
        advertised: dict[str, tuple[str, int]] | None = None,
        stands: Callable[[], bool] | None = None,
    ) -> None:
        self.services = services
        self.registry = registry
        self._advertised = {} if advertised is None else advertised
        self._stands = stands
        self._routes: dict[tuple[int, int], Route] = {}
        self._log = get_logger("kwire.server.dispatch")
        self._request_log = get_logger(REQUEST_LOGGER)
        self._clock = services.doors.clock.perf_counter
        self._quotas = services.quotas
        self.pipelined_keys = registry.pipelined_keys
        self._appends: list[Append] = []
        self._turns = Turns()
        self.pending: dict[asyncio.Future[Any], Exchange] = {}  # also keeps tasks alive

    # -- a request comes --------------------------------------------------------------------------------------------

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Start one request. Raises `InvalidFrame`."""
        started = self._clock()
        if self._stands is not None and not self._stands():
            raise InvalidFrame("this broker is not registered at the moment, so it cannot tell what clients may do")
        client = connection.context or self._meet(connection)
        try:
            start, correlation_id = _read_start(frame)
            if start == client.start and frame[_START_SIZE : client.body].tobytes() == client.rest_of_header:
                route, position = client.route, client.body  # as in the client's last request
            else:
                route, position = self._read_header(client, frame)
                if route is None:
                    self._answer_unknown_version(connection, correlation_id)
                    return
            response = None
            if route.fast_path is not None and self._request_log.level > DEBUG:
                version = route.version
                if self._appends and route.together is None:
                    self.append_all()
                response = route.fast_path(frame, position, version, correlation_id, self.services, client.decisions)
                if response.__class__ is tuple:
                    parts, size = response
                    self._answer_quickly(connection, route, len(frame), parts, size, started)
                    return
                if route.together is not None and response is not None:
                    if not connection.is_alone or self._appends or self._quotas.active:
                        response.source = connection, route, frame, position, started
                        self._append(response)
                        return
                    response = response.run()
                    if response.__class__ is bytes:
                        self._answer_quickly(connection, route, len(frame), [response], len(response), started)
                        return
            self.append_all()
            exchange = Exchange(self.services, connection, route, correlation_id, started)
            exchange.request_size = len(frame)
            if response is None:
                exchange.request, _ = decode(route.request_class, route.version, frame, position, REQUEST_BUDGET)
            else:
                exchange.encoded = frame, position
        except (CodecError, struct_error) as error:
            raise InvalidFrame(f"malformed request: {error}") from None
        self._begin(exchange, response)

    def _begin(self, exchange: Exchange, response: Any) -> None:
        """Handle a request, unless it has to wait for its turn. ``response``: how the fast path goes on, or None."""
        if response is not None:
            self._begun(exchange, response(exchange))
            return
        followers = exchange.route.of_followers
        if followers is not None:
            request = exchange.request
            if request.replica_state.replica_id >= 0 or request.replica_id >= 0:  # inline: every Fetch comes here
                exchange.route = followers
        if exchange.route.takes_long and (self._turns.is_over or not exchange.connection.is_alone):
            exchange.slot = exchange.connection.defer(pipelined=False)
            self._turns.wait(partial(self._begin_late, exchange))
            return
        self._begun(exchange, self._handle(exchange))

    def _begin_late(self, exchange: Exchange) -> None:
        """Handle a request that has waited for its turn, unless its client has gone. The wait is not part of its
        time."""
        if exchange.connection.closed:
            return
        exchange.started = self._clock()
        try:
            self._begun(exchange, self._handle(exchange))
        except Exception:
            self._log.exception("closing connection: request failed", connection=exchange.connection.id)
            exchange.connection.close()

    def _took(self, exchange: Exchange, seconds: float) -> None:
        """Note how much of this turn a request took that did not come alone. Produce never waits, for that would undo
        its pipeline."""
        route = exchange.route
        route.takes_long = seconds >= LONG_S and not route.api.pipelined
        if route.takes_long:
            self._turns.spend(seconds)

    def _answer_quickly(
        self, connection: Connection, route: Route, request_size: int, parts: list[Part], size: int, started: float
    ) -> None:
        """`_answer` for a request that was never decoded."""
        connection.send(parts, size)
        route.count(request_size, size, self._clock() - started)

    def _append(self, append: Append) -> None:
        """Append a batch, together with others of this turn of the loop unless it is large, before their responses are
        sent."""
        appends = self._appends
        if len(append.records) > GROUPED_BYTES or self._quotas.active:
            self.append_all()
            self._appended(append, append.run(), self._clock())
            return
        appends.append(append)
        count = len(appends)
        if count == 1:
            append.source[0].put_off(self.append_all)
        elif count == APPENDS_MAX:
            self.append_all()

    def append_all(self) -> None:
        """Do the appends that were put off, and queue their responses, which come before those of later requests. An
        exception closes the connections, as one does that a request causes by itself."""
        appends = self._appends
        if not appends:
            return
        self._appends = []
        try:
            results = appends[0].source[1].together(appends)
            now = self._clock()
            for append, result in zip(appends, results, strict=True):
                self._appended(append, result, now)
        except Exception:
            self._log.exception("closing connections: appending failed", connections=len(appends))
            for append in appends:
                append.source[0].close()

    def _appended(self, append: Append, result: Any, now: float) -> None:
        """Respond to a request whose append is done."""
        connection, route, frame, position, started = append.source
        if result.__class__ is not bytes:
            exchange = Exchange(self.services, connection, route, append.correlation_id, started)
            exchange.request_size = len(frame)
            exchange.encoded = frame, position
            self._begun(exchange, result(exchange))
            return
        size = len(frame)
        if self._quotas.active:
            self._charge_quickly(connection, route, size, result, started)
            return
        connection.queue(result)
        route.count(size, len(result), now - started)

    def _begun(self, exchange: Exchange, response: Any) -> None:
        """Respond at once, or when the awaitable is done."""
        route = exchange.route
        route.metrics.request_bytes += exchange.request_size
        if response is None or response.__class__ is route.response_class:
            self._answer(exchange, response)
        else:
            self._wait(exchange, response)

    def _charge_quickly(self, connection: Connection, route: Route, size: int, response: bytes, started: float) -> None:
        """`_answer_quickly`, with quotas: of the bytes that were produced, and of time."""
        client: Client = connection.context
        quotas = self._quotas.managers
        now = self._clock()
        now_ms = int(now * 1000)
        sensors = quotas.client(client.principal.name, client.id, now_ms)
        throttle_ms = quotas.charge_produce(sensors, size, now - started, 1, now_ms)
        if throttle_ms:
            end = len(response) - (1 if route.flexible_header else 0)  # behind the throttle time there may be tags
            response = response[: end - _THROTTLE_SIZE] + _pack_throttle(throttle_ms) + response[end:]
            connection.mute(throttle_ms)
            route.metrics.throttled(throttle_ms)
        self._answer_quickly(connection, route, size, [response], len(response), started)
        quotas.charge_sending(sensors, self._clock() - now, now_ms)

    def _meet(self, connection: Connection) -> Client:
        """Set up the client at the first request of its connection."""
        connection.context = client = self.client_of(connection, Client)
        return client

    def client_of(self, connection: Connection, kind: type[C]) -> C:
        """What is known of a client that has sent nothing yet."""
        endpoint = self._advertised.get(connection.listener) or connection.local
        return kind(ANONYMOUS, connection.peer[0], endpoint)

    def _route(self, key: int, version: int) -> Route | None:
        """The route of an API and version that come for the first time; None for an unknown version of ApiVersions."""
        api = self.registry.get(key)
        if api is None:
            raise InvalidFrame(f"unknown API key {key}")
        low, high = api.served
        if not low <= version <= high:
            if key == ApiKey.API_VERSIONS:
                return None
            raise InvalidFrame(f"{api_name(key)} version {version} is not served, only {low} to {high}")
        requests = self.services.metrics.requests
        if key == ApiKey.FETCH:
            route = Route(api, version, requests(FETCH_CONSUMER))
            route.of_followers = Route(api, version, requests(FETCH_FOLLOWER))
        else:
            route = Route(api, version, requests(api_name(key)))
        self._routes[key, version] = route
        return route

    def _read_header(self, client: Client, frame: memoryview) -> tuple[Route | None, int]:
        """Read a header unlike that of the client's last request: its route, None if this version of ApiVersions is
        unknown, and where the body begins. Raises `InvalidFrame`, CodecError, struct.error."""
        key, version = _read_api(frame)
        route = self._routes.get((key, version)) or self._route(key, version)
        if route is None:
            return None, 0
        client.start = None
        header, position = decode_request_header(frame)
        client.id = header.client_id
        if position <= _KEPT_HEADER_MAX:
            client.start = _read_start(frame)[0]
            client.rest_of_header, client.body, client.route = frame[_START_SIZE:position].tobytes(), position, route
        return route, position

    def _answer_unknown_version(self, connection: Connection, correlation_id: int) -> None:
        from kwire.handlers.cluster.api_versions import unsupported_version

        self.append_all()
        body = encode_parts(unsupported_version(), 0)[0]
        connection.send([pack_header(len(body) + 4, correlation_id) + body], len(body) + 8)

    # -- it is handled ----------------------------------------------------------------------------------------------

    def _handle(self, exchange: Exchange) -> Any:
        """What the handler returns, or the error response."""
        api = exchange.route.api
        try:
            if api.operations is not None and not self.services.authorizer.allows_all:
                for operation in api.operations(exchange.request, exchange):
                    self.services.authorizer.require(exchange, operation)
            return api.handle(exchange.request, exchange)
        except Exception as error:
            return self._failed(exchange, error)

    def _failed(self, exchange: Exchange, error: BaseException) -> Any:
        """The error response to a request whose handler failed; None if the connection is closed instead."""
        connection, route = exchange.connection, exchange.route
        if isinstance(error, CloseConnection):
            self._log.info("closing connection", connection=connection.id, reason=str(error))
            connection.close()
            return None
        code, message = error_of(error)
        exchange.is_refused = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._log.error("request failed", api=route.name, version=route.version, exc_info=error)
        try:
            return route.api.error_response(exchange.request, route.version, code, message)
        except Exception:
            self._log.exception("closing connection: no error response", api=route.name, connection=connection.id)
            connection.close()
            return None

    def _wait(self, exchange: Exchange, awaited: Awaitable[Any]) -> None:
        """Send the response when the awaitable is done."""
        api = exchange.route.api
        if exchange.slot is None:
            exchange.slot = exchange.connection.defer(api.pipelined and not exchange.exclusive)
        future: asyncio.Future[Any] = asyncio.ensure_future(awaited)
        self.pending[future] = exchange
        if api.cancel_on_disconnect:
            exchange.slot.cancel = future.cancel
        exchange.slot.wake_early = exchange.wake_early
        now = self._clock()
        exchange.waited = -now
        if not exchange.connection.is_alone:
            self._took(exchange, now - exchange.started)
        future.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[Any]) -> None:
        """An awaited response is ready."""
        exchange = self.pending.pop(future)
        exchange.waited += self._clock()
        if future.cancelled():
            self._answer(exchange, None)
            return
        error = future.exception()
        result = future.result() if error is None else self._failed(exchange, error)
        if result.__class__ is tuple:
            parts, size = result
            self._answer_late(exchange, parts, size)
            return
        self._answer(exchange, result)
        if exchange.charged is not None or exchange.request_size >= LARGE_BYTES:
            free_in_slices(*(each for each in (exchange._request, result) if each is not None))

    def _answer_late(self, exchange: Exchange, parts: list[Part], size: int) -> None:
        """`_answer` with the frame of a fast path that had to wait."""
        metrics, slot = exchange.route.metrics, exchange.slot
        assert slot is not None
        slot.answer(parts, size)
        metrics.response_bytes += size
        waited = exchange.waited
        metrics.record(
            exchange.route.version, int((self._clock() - exchange.started - waited) * 1e6), int(waited * 1e6)
        )

    # -- it is answered ---------------------------------------------------------------------------------------------

    def _answer(self, exchange: Exchange, response: Any) -> None:
        """Queue the response's bytes, directly or through its slot; count the request."""
        sending = self._charge(exchange, response) if self._quotas.active else None
        route, slot = exchange.route, exchange.slot
        size = 0
        if response is not None:
            parts, size = self._encode(exchange, response)
            if slot is None:
                exchange.connection.send(parts, size)
            else:
                slot.answer(parts, size)
        elif slot is not None:
            slot.answer(None)
        if exchange.throttle_time_ms:
            exchange.connection.mute(exchange.throttle_time_ms)
            route.metrics.throttled(exchange.throttle_time_ms)
        if sending is not None:
            sending()
        metrics = route.metrics
        metrics.response_bytes += size
        metrics.examined += 1
        total = self._clock() - exchange.started
        waited = exchange.waited
        metrics.record(route.version, int((total - waited) * 1e6), int(waited * 1e6))
        if not waited and not exchange.connection.is_alone:
            self._took(exchange, total)
        if route.tells_software:
            client: Client = exchange.connection.context
            client.software_name, client.software_version = exchange.software_name, exchange.software_version
        if self._request_log.level <= DEBUG:
            from kwire.handlers.loggable import facts_of

            shown = (exchange.request, response) if self._request_log.level <= TRACE else None
            self._request_log.debug("completed request", **facts_of(exchange, route.name, total, shown))

    def _charge(self, exchange: Exchange, response: Any) -> Callable[[], None]:
        """Charge the client's quotas for a request, unless its handler has done so. Returns what to call when the
        response is sent."""
        quotas = self._quotas.managers
        now = self._clock()
        now_ms = int(now * 1000)
        sensors = quotas.client(exchange.principal.name, exchange.client_id, now_ms)
        if exchange.charged is None or isinstance(exchange.charged, Unthrottled):
            exchange.throttle_time_ms = self._throttle_time_ms(exchange, response, sensors, now_ms)
            if exchange.throttle_time_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = exchange.throttle_time_ms
                exchange.charged = None
        return lambda: quotas.charge_sending(sensors, self._clock() - now, now_ms)

    def _throttle_time_ms(self, exchange: Exchange, response: Any, sensors: ClientSensors, now_ms: int) -> int:
        """Charge a request. Returns how long the client is throttled."""
        quotas, key, request, busy_s = self._quotas.managers, exchange.route.key, exchange.request, exchange.busy_s()
        if key == ApiKey.PRODUCE:
            return quotas.charge_produce(sensors, exchange.request_size, busy_s, request.acks, now_ms)
        follows = key == ApiKey.FETCH and max(request.replica_id, request.replica_state.replica_id) >= 0
        if follows or (key in EXEMPT and not exchange.is_refused):
            quotas.charge_exempt(busy_s, now_ms)
            return 0
        return quotas.charge_request(sensors, busy_s, now_ms, getattr(response, "throttle_time_ms", 0))

    def _encode(self, exchange: Exchange, response: Any) -> tuple[list[Part], int]:
        """The frame of a response, whose errors are counted; if it cannot be encoded, its handler has failed."""
        route = exchange.route
        try:
            frame = frame_of(route, exchange.correlation_id, response, exchange.charged)
        except CodecError as error:
            response = self._failed(exchange, error)
            if response is None:
                return [], 0
            frame = frame_of(route, exchange.correlation_id, response)
        route.count_errors(response, route.metrics.errors)
        return frame
