"""The errors of a login. Neither of them ever contains a password, a token or a key."""

from __future__ import annotations


class AuthenticationError(Exception):
    """A login has failed; the other side gets this text (in SaslAuthenticate: SASL_AUTHENTICATION_FAILED). ``reason``
    is for the broker's log, which may say more."""

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = text if reason is None else reason


class InvalidCredentials(AuthenticationError):
    """A login has failed, and the client gets a general text only, so that it learns nothing about users. This text is
    for the broker's log."""
