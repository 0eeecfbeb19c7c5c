"""GSSAPI (RFC 4752): Kerberos tickets.

    client   token of the GSS context                        repeated until both sides have the context
    server   token of the GSS context
    client   nothing
    server   wrapped: the security layers on offer (1: none), the size of messages in such a layer
    client   wrapped: the security layer chosen (1), a size (0), the authorization id
    server   nothing

Kafka has no security layers: TLS encrypts. As in Kafka, the principal is the client's Kerberos name, shortened by
`sasl.kerberos.principal.to.local.rules`, and the session ends only by `connections.max.reauth.ms`, not with the ticket.
The authorization id is ignored, as in Kafka: kafka-python and aiokafka send the broker's name, not the client's.

What lives elsewhere: tickets, keytabs and contexts (`kwire.security.kerberos`), and rules (`names.kerberos`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.principals import ANONYMOUS, USER_TYPE, Principal

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kwire.base.futures import NowOrLater
    from kwire.security.names.kerberos import KerberosRules

NAME: Final = "GSSAPI"

NO_LAYER: Final = 1
_OFFER: Final = bytes([NO_LAYER, 1, 0, 0])
"""No layer is on offer; the size has no meaning then, and is the one that Java sends."""
_CHOICE: Final = bytes([NO_LAYER, 0, 0, 0])


class GssError(Exception):
    """The Kerberos library refuses a token or has no ticket; the text is the library's and names no key."""


class GssContext(Protocol):
    """One side of a GSS context. Everything but ``complete`` may raise `GssError`."""

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

    def respond(self, token: bytes) -> NowOrLater[bytes | None]:
        """The context's next token; or the offer of security layers; None at the end, after the client's choice."""
        context = self._context
        if context is None or not context.complete:
            return self._step(token)
        try:
            if not self._offered:
                return self._offer(context, token)
            self._choose(context, token)
        except GssError as error:
            raise InvalidCredentials(str(error)) from None
        return None

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

    def _choose(self, context: GssContext, token: bytes) -> None:
        choice = context.unwrap(token)
        if len(choice) < len(_CHOICE) or not choice[0] & NO_LAYER:
            raise InvalidCredentials("the client wants a security layer; there is none, only TLS")
        peer = context.peer
        try:
            name = self._rules.short_name(peer)
        except ValueError as error:
            raise InvalidCredentials(f"{peer}: {error}") from None
        self.principal = Principal(USER_TYPE, name)
        self.complete = True


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
        return self._context.wrap(_CHOICE)

    @staticmethod
    def _guarded(call: Callable[[], bytes]) -> bytes:
        try:
            return call()
        except GssError as error:
            raise AuthenticationError(f"Kerberos: {error}") from None
