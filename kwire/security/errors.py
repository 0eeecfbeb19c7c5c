"""The errors of a login. They never contain a password, a token or a key."""

from __future__ import annotations


class AuthenticationError(Exception):
    """A login has failed. The text is sent to the client (SaslAuthenticate, SASL_AUTHENTICATION_FAILED). ``reason`` is
    for the broker's log and may be more specific."""

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = text if reason is None else reason


class InvalidCredentials(AuthenticationError):
    """A login has failed, and the client receives a general text only, which reveals nothing about users. The text of
    this exception is for the broker's log."""
