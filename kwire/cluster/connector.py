"""`Connector`: opens connections to brokers, with TLS and a login where they want them.

The one place where an authenticated `ClientConnection` comes from: for other brokers (`replication.peers`) and for
commands (`kwire.cli`). What lives elsewhere: properties and the requests of a login (`kwire.security.client`), bytes
(`kwire.net.client`).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from kwire.net.settings import SETUP_MAX_MS
from kwire.security.client import GSSAPI, PLAINTEXT, client_exchange, login_requests

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.base.doors import Doors
    from kwire.cluster.client_tokens import ClientTokens
    from kwire.codec.message import Message
    from kwire.net.client import ClientConnection
    from kwire.security.client import ClientSecurity
    from kwire.security.tls.settings import TlsSettings

P = ParamSpec("P")
T = TypeVar("T")

RENEWED_AFTER: Final = 0.85
"""The part of a session's lifetime after which another login is due; Kafka's clients take 0.85 to 0.95 (KIP-368)."""

LOGIN_MAX_S: Final = SETUP_MAX_MS / 1000
"""Seconds for a login. A host that has lost its power does not close its connections."""


class Connector:
    """Opens connections as one client."""

    def __init__(self, doors: Doors, security: ClientSecurity = PLAINTEXT) -> None:
        self._doors = doors
        self._security = security
        self._context: SSLContext | None = None
        self._tokens: ClientTokens | None = None
        if security.token_client is not None:
            from kwire.cluster.client_tokens import ClientTokens

            self._tokens = ClientTokens(doors, security.token_client)

    def use(self, tls: TlsSettings) -> None:
        """Take other stores for the next connection, or the same ones with other content."""
        self._security = self._security._replace(tls=tls)
        self._context = None

    async def connect(self, host: str, port: int, client_id: str) -> ClientConnection:
        """A connection that is logged in. OSError if no broker listens there or TLS fails; PermissionError if the
        login fails. `TlsError` if a key store or trust store cannot be used."""
        from kwire.net.client import ClientConnection, ConnectionLost
        from kwire.security.errors import AuthenticationError

        try:
            connection = await ClientConnection.connect(self._doors, host, port, client_id, self._tls())
        except OSError as error:
            raise self._explained(error) from None
        if self._security.mechanism:
            try:
                async with asyncio.timeout(LOGIN_MAX_S):
                    await self._log_in(connection, host)
            except BaseException as error:
                connection.close()
                if isinstance(error, AuthenticationError):
                    raise PermissionError(f"login failed: {error}") from None
                if isinstance(error, TimeoutError):
                    raise TimeoutError(errno.ETIMEDOUT, "the login takes too long") from None
                if isinstance(error, ConnectionLost):
                    raise ConnectionResetError("the broker closed the connection during the login") from None
                raise
        return connection

    def _explained(self, error: OSError) -> OSError:
        """The error, with what to do if the broker's certificate comes from an authority that is not known here."""
        tls = self._security.tls
        if tls is None or tls.truststore_location is not None or tls.truststore_certificates is not None:
            return error
        from kwire.net.tls import TlsError

        if not isinstance(error, TlsError) or not any(word in error.reason for word in ("issuer", "self-signed")):
            return error
        hint = "ssl.truststore.location is not set, so only the system's authorities are trusted"
        return TlsError(f"{error.reason}; {hint}")

    def _tls(self) -> SSLContext | None:
        if self._security.tls is None:
            return None
        if self._context is None:
            from kwire.security.tls.contexts import client_context

            self._context = client_context(self._security.tls, self._doors.files)
        return self._context

    async def _log_in(self, connection: ClientConnection, host: str) -> None:
        token = None if self._tokens is None else await self._tokens.token()
        exchange = await self._call(client_exchange, self._security, self._doors, host, token)
        steps = login_requests(self._security.mechanism, exchange)
        step = await self._call(_next_step, steps, None)
        while isinstance(step, tuple):
            step = await self._call(_next_step, steps, await connection.call(*step))
        lifetime_ms = step
        if lifetime_ms:
            connection.renewed_at_s = asyncio.get_running_loop().time() + lifetime_ms / 1000 * RENEWED_AFTER

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a step of a login. One of Kerberos may wait for the key distribution centre, and does so on a thread of
        its own: those of the executor have other work."""
        if self._security.mechanism == GSSAPI:
            return await self._doors.executor.run_apart(function, *args, **kwargs)
        return function(*args, **kwargs)


def _next_step(steps: Generator[tuple[Message, int], Any, int], response: Any) -> tuple[Message, int] | int:
    """The next request of a login, or the lifetime of the session at its end."""
    try:
        return steps.send(response)
    except StopIteration as end:
        lifetime_ms: int = end.value
        return lifetime_ms
