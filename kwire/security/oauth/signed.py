"""Signed tokens (JWT, RFC 7519), checked like in Kafka's `BrokerJwtValidator` with jose4j, but more strictly: only
asymmetric algorithms are accepted, and every date claim must be a valid date.

``exp``, ``iat`` and the subject's claim are required. Without an expected audience a token that has one is refused: it
was made for another service (RFC 7519, section 4.1.3). A token whose ``exp`` is before ``iat`` or ``nbf`` is refused.
Blank and duplicate scopes are refused; otherwise scopes have no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kwire.security.oauth.keys import ALGORITHMS, verified_payload
from kwire.security.oauth.tokens import BearerToken, TokenRefused, base64url_decoded, date, json_object, text

if TYPE_CHECKING:
    from kwire.base.futures import NowOrLater
    from kwire.security.oauth.keys import KeySet

KEY_ID_MAX: Final = 1000
"""The most characters of a key id, as in Kafka."""

HEADER_MAX: Final = 16 * 1024
"""The most characters of a token's header, which is decoded before the signature has been checked."""

_DOTS: Final = 2


class TokenRules(NamedTuple):
    """A listener's rules for tokens. ``issuer`` None: any; ``audiences`` empty: only tokens without an audience."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class KeySource(Protocol):
    """The keys of the issuer, which may change."""

    keys: KeySet

    def refreshed(self) -> Awaitable[None] | None:
        """Fetch the keys again, because a token names an unknown key. None: no fetch is allowed now."""
        ...


class SignedTokens:
    """Checks tokens; instances are a `TokenCheck`. ``time_ms``: the wall clock."""

    def __init__(self, rules: TokenRules, source: KeySource, time_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._source = source
        self._time_ms = time_ms

    def __call__(self, token: str) -> NowOrLater[BearerToken]:
        """The principal and expiry of a valid token. `TokenRefused`."""
        key_id, algorithm = _signature(token)
        if keys := self._source.keys.find(key_id, algorithm):
            return self._accepted(token, algorithm, keys)
        refreshed = self._source.refreshed() if key_id is not None else None
        if refreshed is None:
            raise TokenRefused("the token's key is unknown")
        return self._after(refreshed, token)

    async def _after(self, refreshed: Awaitable[None], token: str) -> BearerToken:
        await refreshed
        key_id, algorithm = _signature(token)
        return self._accepted(token, algorithm, self._source.keys.find(key_id, algorithm))

    def _accepted(self, token: str, algorithm: str, keys: tuple[Any, ...]) -> BearerToken:
        if not keys:
            raise TokenRefused("the token's key is unknown")
        return accepted(json_object(verified_payload(token, algorithm, keys)), self._rules, self._time_ms())


def _signature(token: str) -> tuple[str | None, str]:
    """The key and the algorithm that a token names. `TokenRefused`."""
    if token.count(".") != _DOTS or not all(token.split(".")):
        raise TokenRefused("the token does not have three sections")
    encoded = token.partition(".")[0]
    if len(encoded) > HEADER_MAX:
        raise TokenRefused("the token's header is too long")
    header = json_object(base64url_decoded(encoded))
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused("the token's algorithm is not accepted: signatures with asymmetric keys only")
    if "crit" in header or "b64" in header:
        raise TokenRefused("the token has extensions that are not supported")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > KEY_ID_MAX):
        raise TokenRefused("the token's key id is not a text, or too long")
    return key_id, algorithm


def accepted(claims: dict[str, Any], rules: TokenRules, now_ms: int) -> BearerToken:
    """Check the claims of a token whose signature is valid. `TokenRefused`."""
    expires_s = _in_time(claims, rules.clock_skew_s, now_ms / 1000)
    _check_texts(claims, "iss", "sub", "jti")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("iss is not sasl.oauthbearer.expected.issuer")
    _check_audience(claims, rules.audiences)
    _check_scopes(claims.get(rules.scope_claim))
    return BearerToken(text(claims, rules.subject_claim).strip(), int(expires_s) * 1000)


def _in_time(claims: dict[str, Any], skew_s: int, now_s: float) -> float:
    """The time at which a token expires, in seconds, if it is valid now. As in jose4j, fractions are ignored."""
    expires_s, issued_s, begins_s = date(claims, "exp"), date(claims, "iat"), date(claims, "nbf")
    if expires_s is None or issued_s is None:
        raise TokenRefused("exp and iat are required")
    if int(now_s) - skew_s >= int(expires_s):
        raise TokenRefused("the token has expired")
    if begins_s is not None and int(now_s) + skew_s < int(begins_s):
        raise TokenRefused("the token is not valid yet")
    if int(expires_s) < int(issued_s) or (begins_s is not None and int(expires_s) < int(begins_s)):
        raise TokenRefused("exp is before iat or nbf")
    return expires_s


def _check_texts(claims: dict[str, Any], *names: str) -> None:
    for name in names:
        if not isinstance(claims.get(name), str | None):
            raise TokenRefused(f"{name} is not a text")


def _check_audience(claims: dict[str, Any], expected: tuple[str, ...]) -> None:
    found = claims.get("aud")
    audiences = [found] if isinstance(found, str) else found
    if audiences is None:
        if expected:
            raise TokenRefused("there is no aud")
        return
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise TokenRefused("aud is neither a text nor a list of texts")
    if not any(each in expected for each in audiences):
        raise TokenRefused("aud is not one of sasl.oauthbearer.expected.audience")


def _check_scopes(found: Any) -> None:
    scopes = [found] if isinstance(found, str) else found
    if not isinstance(scopes, list):
        return
    if not all(isinstance(each, str) and each.strip() for each in scopes):
        raise TokenRefused("a scope is blank or no text")
    if len({each.strip() for each in scopes}) < len(scopes):
        raise TokenRefused("a scope comes twice")
