"""Tokens as values, and the first look at their JSON, which strangers have written."""

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
    """A token that has been accepted: for whom it speaks, and when it expires (wall clock)."""

    subject: str
    expires_ms: int


class TokenRefused(Exception):
    """A token is not accepted. The text is the reason, for the log, without the token; the client is told the status,
    and the scope that is missing."""

    def __init__(self, reason: str, status: str = INVALID, scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


TokenCheck: TypeAlias = "Callable[[str], NowOrLater[BearerToken]]"
"""Checks a token: its meaning now, or when keys have been fetched. Raises `TokenRefused`."""


def base64url_decoded(text: str) -> bytes:
    """The bytes of a section of a token, without padding (RFC 7515, section 2). `TokenRefused`."""
    if _BASE64URL.fullmatch(text) is None or len(text) % 4 == 1:
        raise TokenRefused("a section of the token is not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def json_object(data: bytes) -> dict[str, Any]:
    """A JSON object. Names that come twice, NaN and infinite numbers are refused (`TokenRefused`): two readers of the
    same token must not understand it in two ways."""
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
"""Beyond it milliseconds have no exact numbers: the year 287396."""


def _is_date(value: float) -> bool:
    return isfinite(value) and 0 <= value <= _LAST_S


def text(claims: dict[str, Any], name: str) -> str:
    """A claim that must be a text and not blank. `TokenRefused`."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip() or _SURROGATE.search(value) is not None:
        raise TokenRefused(f"there is no {name}, or it is no text")
    return value
