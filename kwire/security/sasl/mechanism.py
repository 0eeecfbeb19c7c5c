"""The interface of mechanisms: an object for one login, which receives the peer's tokens and returns ours.

What lives elsewhere: the requests that carry the tokens, and the sequence of logins of a connection
(`kwire.server.authentication`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kwire.base.futures import NowOrLater
    from kwire.security.principals import Principal

OTHER_IDENTITY: Final = "Authentication failed: Client requested an authorization id that is different from username"
"""Kafka's text for a client whose authorization id (authzid) is another user."""


class ServerExchange(Protocol):
    """The broker's side of one login. It must not be used after an error.

    When ``complete`` is true, no further token is expected, and the other attributes are set: ``principal``;
    ``expires_ms``, when the credential expires (wall clock; None: no limit); ``by_token``, whether the client used a
    delegation token (KIP-48).
    """

    complete: bool
    principal: Principal
    expires_ms: int | None
    by_token: bool

    def respond(self, token: bytes) -> NowOrLater[bytes | None]:
        """The challenge that follows a client's token, which may be empty. None: there is none, and a client that sends
        raw tokens waits for none (GSSAPI's end). `AuthenticationError`."""


class ClientExchange(Protocol):
    """The client's side of one login."""

    complete: bool

    def first(self) -> bytes:
        """The first token."""

    def respond(self, challenge: bytes) -> bytes:
        """The token that follows a challenge; when ``complete`` is true after it, there is none to send.
        `AuthenticationError` if the server cannot be trusted."""
