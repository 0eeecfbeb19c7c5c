"""Tokens as values, and the strict reading of their JSON, which comes from unauthenticated clients."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from kwire.base.futures import NowOrLater

INVALID: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"

_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")  # JSON can escape a half of a character


class BearerToken(NamedTuple):
    """A token that has been accepted: its subject, and when it expires (wall clock)."""

    subject: str
    expires_ms: int


class TokenRefused(Exception):
    """A token is not accepted. The text is the reason for the log and does not contain the token. The client receives
    the status and the missing scope."""

    def __init__(self, reason: str, status: str = INVALID, scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


TokenCheck: TypeAlias = "Callable[[str], NowOrLater[BearerToken]]"
"""Checks a token: returns its content at once, or when keys have been fetched. Raises `TokenRefused`."""


def base64url_decoded(text: str) -> bytes:
    """The bytes of a section of a token, without padding (RFC 7515, section 2). `TokenRefused`."""
    if _BASE64URL.fullmatch(text) is None or len(text) % 4 == 1:
        raise TokenRefused("a section of the token is not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def json_object(data: bytes) -> dict[str, Any]:
    """A JSON object. Duplicate names, NaN and infinite numbers are refused (`TokenRefused`), because two readers could
    interpret the same token differently."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise TokenRefused("a section of the token is not a JSON object") from None
    if not isinstance(found, dict):
        raise TokenRefused("a section of the token is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def date(claims: dict[str, Any], name: str) -> float | None:
    """A claim that is a time, in seconds since 1970; None if the token does not have it. `TokenRefused`."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_date(value):
        raise TokenRefused(f"{name} is not a date")
    return value


_LAST_S: Final = 2**53 / 1000
"""Beyond it milliseconds are not exact in a float: the year 287396."""


def _is_date(value: float) -> bool:
    return isfinite(value) and 0 <= value <= _LAST_S


def text(claims: dict[str, Any], name: str) -> str:
    """A claim that must be a text and not blank. `TokenRefused`."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip() or _SURROGATE.search(value) is not None:
        raise TokenRefused(f"there is no {name}, or it is no text")
    return value
