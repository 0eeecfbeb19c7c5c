"""PLAIN (RFC 4616): user and password in one token. For encrypted connections only.

As in Kafka, an authorization id (authzid) that differs from the user's name is refused once the password has been
checked. Unlike in Kafka, a token that is not valid UTF-8 is refused instead of decoded with replacement characters.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from kwire.security.errors import AuthenticationError
from kwire.security.principals import ANONYMOUS, USER_TYPE, Principal
from kwire.security.sasl.mechanism import OTHER_IDENTITY

USER_OPTION: Final = "user_"
"""The prefix of the options of Kafka's login module that define users: ``user_alice="password"``."""

FIELDS: Final = 3
"""The fields of a token: authorization id, user, password."""

_INVALID: Final = "Authentication failed: Invalid username or password"


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """The passwords of the users in the options of Kafka's `PlainLoginModule`, by name."""
    return {
        name.removeprefix(USER_OPTION): password for name, password in options.items() if name.startswith(USER_OPTION)
    }


class ServerPlain:
    """The broker's side. ``passwords``: by user name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.complete = False
        self.principal = ANONYMOUS
        self.expires_ms: int | None = None
        self.by_token = False

    def respond(self, token: bytes) -> bytes:
        """Check the client's only token."""
        try:
            fields = token.decode().split("\0", FIELDS)
        except UnicodeDecodeError:
            raise AuthenticationError(_INVALID) from None
        if len(fields) != FIELDS:
            raise AuthenticationError(f"Invalid SASL/PLAIN response: expected {FIELDS} tokens, got {len(fields)}")
        identity, user, password = fields
        if not user or not password:
            raise AuthenticationError(f"Authentication failed: {'password' if user else 'username'} not specified")
        expected = self._passwords.get(user)
        # Unknown users and wrong passwords take the same time, whatever their lengths.
        matches = hmac.compare_digest(_digest(password), _digest(expected or ""))
        if expected is None or not matches:
            raise AuthenticationError(_INVALID)
        if identity and identity != user:
            raise AuthenticationError(OTHER_IDENTITY)
        self.principal = Principal(USER_TYPE, user)
        self.complete = True
        return b""


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


class ClientPlain:
    """The client's side."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.complete = False

    def first(self) -> bytes:
        """User and password."""
        return self._token

    def respond(self, challenge: bytes) -> bytes:
        """The server has accepted the password."""
        self.complete = True
        return b""
