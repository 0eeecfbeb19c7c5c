"""The dispatchers of connections whose clients have to log in, and of those whose logins expire.

    Authentication --login--> the broker's Dispatcher            if the login does not expire
                   --login--> Sessions --SaslHandshake--> Authentication ...

- After a failed login, the broker waits `connection.failed.authentication.delay.ms`, sends the response and closes the
  connection; nothing is read meanwhile.
- A login expires with its credential or after `connections.max.reauth.ms`. The client can log in again at any time, at
  most once per second, beginning with SaslHandshake. After the login has expired, any other request closes the
  connection (KIP-368).

What lives elsewhere: the sequence of requests (`login`), what is counted (`metrics`), the time limit of a login
(`kwire.net.connection`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from kwire.base.futures import is_later
from kwire.base.limited_log import LimitedLog
from kwire.base.logging import get_logger
from kwire.codec.protocol import ApiKey
from kwire.handlers.context import ConnectionSecurity
from kwire.net.connection import InvalidFrame
from kwire.server.authentication.login import Login, LoginRules, Reply, Session, Step
from kwire.server.authentication.metrics import LoginMetrics
from kwire.server.requests.clients import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kwire.net.connection import Connection, Slot
    from kwire.security.principals import Principal
    from kwire.server.authentication.settings import LoginSettings
    from kwire.server.dispatch import Dispatcher

REPEAT_INTERVAL_S: Final = 1.0
"""Seconds between the beginnings of two reauthentications of a client."""

_read_key = Struct(">h").unpack_from


class SaslClient(Client):
    """The client of a connection to a SASL listener. ``login``: the one under way. ``began_s``: when the client last
    began a reauthentication."""

    __slots__ = ("began_s", "login", "session")

    def __init__(self, principal: Principal, host: str, endpoint: tuple[str, int]) -> None:
        super().__init__(principal, host, endpoint)
        self.login: Login | None = None
        self.session: Session | None = None
        self.began_s: float | None = None


class Authentication:
    """The dispatcher of connections of one listener until their clients have logged in, and while they do so again."""

    pipelined_keys: frozenset[int] = frozenset()

    def __init__(self, main: Dispatcher, listener: str, settings: LoginSettings, request_max_bytes: int) -> None:
        """``request_max_bytes``: the largest frame after the login."""
        services = main.services
        self._main = main
        self._rules = LoginRules(settings, services, main.registry, services.doors.clock)
        self._request_max_bytes = request_max_bytes
        self._monotonic = services.doors.clock.monotonic
        self.metrics = LoginMetrics(services.metrics, listener, self._monotonic)
        self._log = get_logger("kwire.server.authentication")
        self._failures = LimitedLog(self._log, self._monotonic)
        self._sessions = Sessions(main, self, self.metrics)
        self._pending: set[asyncio.Future[Reply]] = set()  # keeps tasks alive

    @property
    def settings(self) -> LoginSettings:
        """The settings of new logins; a login that has begun keeps the settings it began with."""
        return self._rules.settings

    @settings.setter
    def settings(self, settings: LoginSettings) -> None:
        self._rules = self._rules._replace(settings=settings)

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Pass a frame to the login. Raises `InvalidFrame`."""
        client: SaslClient = connection.context or self._meet(connection)
        login = client.login
        assert login is not None
        reply = login.receive(frame)
        if is_later(reply):
            self._wait(connection, reply)
        elif reply.step is Step.FAILED:
            self._fail(connection, connection.defer(pipelined=False), reply)
        else:
            self._go_on(connection, reply)
            if reply.frame is not None:
                connection.send([reply.frame], len(reply.frame))

    def repeat(self, connection: Connection, frame: memoryview) -> None:
        """Begin a reauthentication, whose handshake is this frame."""
        self._main.append_all()  # whose responses come first
        client: SaslClient = connection.context
        client.login = Login(self._rules, client.session)
        connection.use(self, self.settings.receive_max_bytes)
        self.dispatch(connection, frame)

    def _meet(self, connection: Connection) -> SaslClient:
        connection.context = client = self._main.client_of(connection, SaslClient)
        client.login = Login(self._rules)
        client.security = ConnectionSecurity(self.settings.protocol)
        return client

    def _wait(self, connection: Connection, reply: Awaitable[Reply]) -> None:
        """Continue when the mechanism has accepted or refused the token."""
        slot = connection.defer(pipelined=False)
        future: asyncio.Future[Reply] = asyncio.ensure_future(reply)
        self._pending.add(future)
        slot.cancel = future.cancel
        future.add_done_callback(partial(self._decided, connection, slot))

    def _decided(self, connection: Connection, slot: Slot, future: asyncio.Future[Reply]) -> None:
        self._pending.discard(future)
        if future.cancelled():
            slot.answer(None)
            return
        error = future.exception()
        if error is not None:
            self._log.error("closing connection: login failed", connection=connection.id, exc_info=error)
            connection.close()
            return
        reply = future.result()
        if reply.step is Step.FAILED:
            self._fail(connection, slot, reply)
        else:
            self._go_on(connection, reply)
            slot.answer([reply.frame] if reply.frame is not None else None, len(reply.frame or b""))

    def _go_on(self, connection: Connection, reply: Reply) -> None:
        """Prepare the connection for the step after a reply, which the caller then sends."""
        client: SaslClient = connection.context
        login = client.login
        assert login is not None
        if reply.step is Step.COMPLETE:
            assert login.session is not None
            self._complete(connection, client, login, login.session)
        elif login.takes_empty_frames:
            connection.request_min_bytes = 0

    def _complete(self, connection: Connection, client: SaslClient, login: Login, session: Session) -> None:
        """Serve the client's requests from now on."""
        if client.session is None:
            self.metrics.authenticated(session.can_repeat)
        else:
            assert client.began_s is not None
            self.metrics.reauthenticated(self._monotonic() - client.began_s)
        if login.software is not None:
            client.software_name, client.software_version = login.software
        client.login, client.session = None, session
        client.identify(session.principal, ConnectionSecurity(self.settings.protocol, session.by_token))
        connection.use(self._main if session.ends_s is None else self._sessions, self._request_max_bytes)
        self._log.debug("logged in", connection=connection.id, principal=str(session.principal))

    def _fail(self, connection: Connection, slot: Slot, reply: Reply) -> None:
        """Send the response of a failed login after the delay, and close the connection."""
        client: SaslClient = connection.context
        metrics = self.metrics
        (metrics.failed if client.session is None else metrics.failed_reauth).count()
        assert client.login is not None
        self._failures.info(
            "login failed",
            listener=connection.listener,
            connection=connection.id,
            mechanism=client.login.mechanism_name,
            reason=reply.reason,
        )
        frame = reply.frame
        connection.close_after(self.settings.failed_delay_ms, slot, [] if frame is None else [frame], len(frame or b""))


class Sessions:
    """The dispatcher of connections whose logins expire."""

    def __init__(self, main: Dispatcher, authentication: Authentication, metrics: LoginMetrics) -> None:
        self._main = main
        self._authentication = authentication
        self._metrics = metrics
        self._monotonic = main.services.doors.clock.monotonic
        self.pipelined_keys = main.pipelined_keys

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Serve a request unless the login has expired, or begin a reauthentication. Raises `InvalidFrame`."""
        client: SaslClient = connection.context
        session = client.session
        assert session is not None
        assert session.ends_s is not None
        now_s = self._monotonic()
        is_handshake = len(frame) >= 2 and _read_key(frame)[0] == ApiKey.SASL_HANDSHAKE
        if is_handshake and (client.began_s is None or now_s - client.began_s >= REPEAT_INTERVAL_S):
            client.began_s = now_s
            self._authentication.repeat(connection, frame)
        elif now_s > session.ends_s:
            self._metrics.expired.value += 1
            raise InvalidFrame("a request after the end of the login")
        else:
            self._main.dispatch(connection, frame)
