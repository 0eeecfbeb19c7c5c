"""OAUTHBEARER (RFC 7628): an OAuth 2 bearer token in the client's only message. For encrypted connections only.

    client   n,a=IDENTITY,^Aauth=Bearer TOKEN^AEXTENSION=VALUE^A^A     (^A is the byte 1)
    server   nothing, or {"status":"invalid_token"}
    client   ^A after such an error; the login has failed

As in Kafka, an authorization id must be the token's principal and is compared as it was sent, without decoding ``=2C``.
Extensions are accepted and ignored (KIP-342); if a name is given twice, its last value counts. Unlike in Kafka, the
login always ends with the client's message after an error, and the first message has at most `FIRST_MAX` bytes.

What lives elsewhere: whether a token is accepted (`kwire.security.oauth`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.futures import NowOrLater, is_later
from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.oauth.tokens import TokenRefused
from kwire.security.principals import ANONYMOUS, USER_TYPE, Principal

if TYPE_CHECKING:
    from kwire.security.oauth.tokens import BearerToken, TokenCheck

NAME: Final = "OAUTHBEARER"

FIRST_MAX: Final = 128 * 1024
"""The most bytes of a first message, which is decoded before the client is authenticated. Kafka's only limit is
`sasl.server.max.receive.size`, half a megabyte; tokens that HTTP servers accept have a few kilobytes."""

_END: Final = b"\x01"
_AUTH: Final = "auth"
_KEY: Final = r"[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<identity>{_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_CREDENTIALS: Final = re.compile(rf"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>{_TOKEN.pattern})")
_EXTENSION_KEY: Final = re.compile(_KEY)
_EXTENSION_VALUE: Final = re.compile(_VALUE)


class InitialResponse(NamedTuple):
    """The client's message."""

    token: str
    identity: str = ""
    """The authorization id; empty: the token's principal."""
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"InitialResponse(identity={self.identity!r})"

    @classmethod
    def parse(cls, message: bytes) -> InitialResponse:
        """Parse a message. `InvalidCredentials`, which does not contain the message, where Kafka's
        `OAuthBearerClientInitialResponse` refuses it."""
        if len(message) > FIRST_MAX:
            raise InvalidCredentials(f"the first message has more than {FIRST_MAX} bytes")
        try:
            found = _FIRST.fullmatch(message.decode("ascii"))
        except UnicodeDecodeError:
            found = None
        if found is None:
            raise InvalidCredentials("malformed first message")
        pairs = dict(each.split("=", 1) for each in found["pairs"].split("\x01") if each)
        if _AUTH not in pairs:
            raise InvalidCredentials("the first message has no auth")
        credentials = _CREDENTIALS.fullmatch(pairs.pop(_AUTH))
        if credentials is None:
            raise InvalidCredentials("malformed auth in the first message")
        if credentials["scheme"].lower() != "bearer":
            raise InvalidCredentials("the scheme of auth is not Bearer")
        return cls(credentials["token"], found["identity"] or "", pairs)

    def to_bytes(self) -> bytes:
        """The message as bytes. `ValueError`, which does not contain the token, if the token or an extension is
        invalid."""
        if _TOKEN.fullmatch(self.token) is None:
            raise ValueError("there is no token, or it has characters that a token cannot have")
        for name, value in self.extensions.items():
            if name == _AUTH or _EXTENSION_KEY.fullmatch(name) is None or _EXTENSION_VALUE.fullmatch(value) is None:
                raise ValueError(f"{name} cannot be a SASL extension")
        identity = f"a={self.identity}" if self.identity else ""
        extensions = "".join(f"{name}={value}\x01" for name, value in self.extensions.items())
        return f"n,{identity},\x01auth=Bearer {self.token}\x01{extensions}\x01".encode()


class ServerOAuthBearer:
    """The broker's side. ``check``: checks tokens."""

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self._refusal: AuthenticationError | None = None
        self.complete = False
        self.principal = ANONYMOUS
        self.expires_ms: int | None = None
        self.by_token = False

    def respond(self, token: bytes) -> NowOrLater[bytes]:
        """Check the token in the first message; after an error, end the login."""
        if self._refusal is not None:
            raise self._refusal if token == _END else InvalidCredentials(self._refusal.reason)  # as Kafka does
        first = InitialResponse.parse(token)
        try:
            checked = self._check(first.token)
        except TokenRefused as error:
            return self._refused(error)
        return self._later(first, checked) if is_later(checked) else self._accepted(first, checked)

    async def _later(self, first: InitialResponse, checked: Awaitable[BearerToken]) -> bytes:
        try:
            return self._accepted(first, await checked)
        except TokenRefused as error:
            return self._refused(error)

    def _accepted(self, first: InitialResponse, token: BearerToken) -> bytes:
        if first.identity and first.identity != token.subject:
            raise AuthenticationError(
                f"Authentication failed: Client requested an authorization id ({first.identity})"
                f" that is different from the token's principal name ({token.subject})"
            )
        self.principal, self.expires_ms = Principal(USER_TYPE, token.subject), token.expires_ms
        self.complete = True
        return b""

    def _refused(self, error: TokenRefused) -> bytes:
        """The error's JSON (RFC 7628, section 3.2.2), written as Kafka does."""
        scope = "" if error.scope is None else f', "scope":{json.dumps(error.scope)}'
        text = f'{{"status":"{error.status}"{scope}}}'
        self._refusal = AuthenticationError(text, str(error))
        return text.encode()


class ClientOAuthBearer:
    """The client's side."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._first = InitialResponse(token, extensions=extensions).to_bytes()
        self._failed = False
        self.complete = False

    def first(self) -> bytes:
        """The token."""
        return self._first

    def respond(self, challenge: bytes) -> bytes:
        """Nothing if the token is accepted. After an error, the byte that makes the server end the login."""
        if self._failed:
            raise AuthenticationError("the server has refused the token, but has not ended the login")
        self._failed = bool(challenge)
        self.complete = not challenge
        return _END if challenge else b""
