"""GSSAPI (RFC 4752): Kerberos tickets.

    client   token of the GSS context                        repeated until both sides have the context
    server   token of the GSS context
    client   nothing
    server   wrapped: the security layers on offer (1: none), the size of messages in such a layer (0)
    client   wrapped: the security layer chosen (1), a size (0), the authorization id

Kafka has no security layers: TLS encrypts. As in Kafka, the principal is the client's Kerberos name, shortened by
`sasl.kerberos.principal.to.local.rules`, and the session ends only by `connections.max.reauth.ms`, not with the ticket.
Unlike in Kafka, which ignores the authorization id, it must be the client's full or short name if there is one.

What lives elsewhere: tickets, keytabs and contexts (`kwire.security.kerberos`), and rules (`names.kerberos`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.principals import ANONYMOUS, USER_TYPE, Principal
from kwire.security.sasl.mechanism import OTHER_IDENTITY

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kwire.base.futures import NowOrLater
    from kwire.security.names.kerberos import KerberosRules

NAME: Final = "GSSAPI"

TOKEN_MAX: Final = 64 * 1024
"""The most bytes of a token. Tickets have one or two kilobytes; with the groups of a large directory, some ten."""

NO_LAYER: Final = 1
_OFFER: Final = bytes([NO_LAYER, 0, 0, 0])
_CHOICE_SIZE: Final = 4


class GssError(Exception):
    """The Kerberos library refuses a token or has no ticket; the text is the library's and names no key."""


class GssContext(Protocol):
    """One side of a GSS context. All methods but ``complete`` and ``peer`` may raise `GssError`."""

    @property
    def complete(self) -> bool:
        """Whether this side needs no further token."""

    @property
    def peer(self) -> str:
        """The full name of the other side's principal: ``alice@EXAMPLE.COM``."""

    def step(self, token: bytes) -> bytes:
        """The token that follows one of the other side; empty if there is none. May read files and, as a client, ask
        the key distribution centre."""

    def wrap(self, message: bytes) -> bytes:
        """A message with a checksum, not encrypted."""

    def unwrap(self, message: bytes) -> bytes:
        """The message whose checksum is right."""


class ServerGssapi:
    """The broker's side. ``run``: calls a function that may block, off the event loop."""

    def __init__(
        self,
        context: Callable[[], GssContext],
        rules: KerberosRules,
        run: Callable[[Callable[[], bytes]], Awaitable[bytes]],
    ) -> None:
        self._new_context = context
        self._context: GssContext | None = None
        self._rules = rules
        self._run = run
        self._offered = False
        self.complete = False
        self.principal = ANONYMOUS
        self.expires_ms: int | None = None
        self.by_token = False

    def respond(self, token: bytes) -> NowOrLater[bytes]:
        """The context's next token; or the offer of security layers, or the check of the client's choice."""
        if len(token) > TOKEN_MAX:
            raise InvalidCredentials(f"a token has more than {TOKEN_MAX} bytes")
        context = self._context
        if context is None or not context.complete:
            return self._step(token)
        try:
            return self._choose(context, token) if self._offered else self._offer(context, token)
        except GssError as error:
            raise InvalidCredentials(str(error)) from None

    async def _step(self, token: bytes) -> bytes:
        def step() -> bytes:
            if self._context is None:
                self._context = self._new_context()
            return self._context.step(token)

        try:
            reply = await self._run(step)
            assert self._context is not None
            if self._context.complete and not reply:
                return self._offer(self._context, b"")
            return reply
        except GssError as error:
            raise InvalidCredentials(str(error)) from None

    def _offer(self, context: GssContext, token: bytes) -> bytes:
        if token:
            raise InvalidCredentials("a token after the end of the context")
        self._offered = True
        return context.wrap(_OFFER)

    def _choose(self, context: GssContext, token: bytes) -> bytes:
        choice = context.unwrap(token)
        if len(choice) < _CHOICE_SIZE or not choice[0] & NO_LAYER:
            raise InvalidCredentials("the client wants a security layer; there is none, only TLS")
        try:
            name = self._rules.short_name(context.peer)
            identity = choice[_CHOICE_SIZE:].decode()
        except ValueError as error:
            raise InvalidCredentials(f"{context.peer}: {error}") from None
        if identity not in ("", name, context.peer):
            raise AuthenticationError(OTHER_IDENTITY)
        self.principal = Principal(USER_TYPE, name)
        self.complete = True
        return b""


class ClientGssapi:
    """The client's side. Its methods may block, because they may ask the key distribution centre."""

    def __init__(self, context: GssContext) -> None:
        self._context = context
        self._chosen = False
        self.complete = False

    def first(self) -> bytes:
        """The context's first token."""
        return self._guarded(lambda: self._context.step(b""))

    def respond(self, challenge: bytes) -> bytes:
        """The context's next token; then the choice of no security layer, as which the broker's last, empty message
        ends the login."""
        if self._chosen:
            self.complete = True
            return b""
        if self._context.complete:
            return self._guarded(lambda: self._choose(challenge))
        return self._guarded(lambda: self._context.step(challenge))

    def _choose(self, challenge: bytes) -> bytes:
        offer = self._context.unwrap(challenge)
        if len(offer) != len(_OFFER) or not offer[0] & NO_LAYER:
            raise AuthenticationError("the broker insists on a security layer, which Kafka does not have")
        self._chosen = True
        return self._context.wrap(_OFFER)

    @staticmethod
    def _guarded(call: Callable[[], bytes]) -> bytes:
        try:
            return call()
        except GssError as error:
            raise AuthenticationError(f"Kerberos: {error}") from None
