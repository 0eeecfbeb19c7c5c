"""Unsecured tokens (RFC 7515, appendix A.5), which are not signed: for development. Like Kafka's
`OAuthBearerUnsecuredValidatorCallbackHandler` and `OAuthBearerUnsecuredLoginCallbackHandler`, with their options in the
JAAS text.

A listener accepts them only if it names that validator, because anyone can create such a token for any user.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kwire.security.oauth.tokens import (
    INSUFFICIENT_SCOPE,
    BearerToken,
    TokenRefused,
    base64url_decoded,
    date,
    json_object,
    text,
)

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_OWN: Final = ("exp", "iat")

EXTENSION: Final = "unsecuredLoginExtension_"
"""The prefix of the options that define SASL extensions of a login with an unsecured token."""


class UnsecuredRules(NamedTuple):
    """A listener's rules for unsecured tokens."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> UnsecuredRules:
        """Read the options ``unsecuredValidator…`` of the login module. `ValueError`, one line."""

        def option(name: str) -> str:
            return options.get(f"unsecuredValidator{name}", "").strip()

        scopes = tuple(option("RequiredScope").split())
        for each in scopes:
            if _SCOPE.fullmatch(each) is None:
                raise ValueError("unsecuredValidatorRequiredScope has characters that a scope cannot have")
        name = "AllowableClockSkewMs"
        skew_ms = _number(f"unsecuredValidator{name}", option(name) or "0", 0, _INT_MAX)
        return cls(option("PrincipalClaimName") or "sub", option("ScopeClaimName") or "scope", scopes, skew_ms)


class UnsecuredTokens:
    """Checks unsecured tokens; instances are a `TokenCheck`. ``time_ms``: the wall clock."""

    def __init__(self, rules: UnsecuredRules, time_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._time_ms = time_ms

    def __call__(self, token: str) -> BearerToken:
        """The principal that a token claims, and its expiry. `TokenRefused`."""
        header, _, rest = token.partition(".")
        claims, _, signature = rest.partition(".")
        if not header or not claims or signature or token.count(".") != 2:
            raise TokenRefused("the token does not have two sections and an empty signature")
        if json_object(base64url_decoded(header)).get("alg") != "none":
            raise TokenRefused("the token's algorithm is not none")
        return self._accepted(json_object(base64url_decoded(claims)))

    def _accepted(self, claims: dict[str, Any]) -> BearerToken:
        rules, now_ms = self._rules, self._time_ms()
        expires_s, issued_s = date(claims, "exp"), date(claims, "iat")
        if expires_s is None:
            raise TokenRefused("exp is required")
        if now_ms - rules.clock_skew_ms >= 1000 * expires_s:
            raise TokenRefused("the token has expired")
        if issued_s is not None and 1000 * issued_s > now_ms + rules.clock_skew_ms:
            raise TokenRefused("the token is of the future")
        if issued_s is not None and expires_s <= issued_s:
            raise TokenRefused("exp is not after iat")
        subject = text(claims, rules.subject_claim)
        scopes = _scopes(claims.get(rules.scope_claim))
        if any(each not in scopes for each in rules.required_scopes):
            raise TokenRefused("a scope is missing", INSUFFICIENT_SCOPE, f"[{', '.join(rules.required_scopes)}]")
        return BearerToken(subject, round(expires_s * 1000))


def _scopes(found: Any) -> set[str]:
    if isinstance(found, int | float):
        raise TokenRefused("the scope is a number")
    scopes = found if isinstance(found, list) else [found]
    return {each.strip() for each in scopes if isinstance(each, str)}


def unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """The token that the options ``unsecuredLogin…`` of the login module define. `ValueError`, one line."""
    lifetime = options.get("unsecuredLoginLifetimeSeconds", "3600")
    lifetime_s = _number("unsecuredLoginLifetimeSeconds", lifetime, -_LONG_MAX, _LONG_MAX)
    claims: dict[str, Any] = {"exp": now_ms / 1000 + lifetime_s, "iat": now_ms / 1000}
    for kind, read in (("String", str), ("Number", _float), ("List", _list)):
        prefix = f"unsecuredLogin{kind}Claim_"
        for option, value in options.items():
            name = option.removeprefix(prefix)
            if not name or name == option:
                continue
            if name in _OWN:
                raise ValueError(f"{option} cannot be set")
            claims[name] = read(value)
    subject = options.get("unsecuredLoginPrincipalClaimName", "").strip() or "sub"
    if not isinstance(claims.get(subject), str) or not claims[subject].strip():
        raise ValueError(f"unsecuredLoginStringClaim_{subject} must be set: it is the user's name")
    return ".".join((*(_encoded(each) for each in ({"alg": "none"}, claims)), ""))


def extensions(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The SASL extensions (KIP-342) that the options with a prefix set."""
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


def _encoded(section: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(section).encode()).rstrip(b"=").decode()


def _number(name: str, value: str, low: int, high: int) -> int:
    try:
        found = int(value)
    except ValueError:
        found = high + 1
    if not low <= found <= high:
        raise ValueError(f"{name} must be a number from {low}" if low == 0 else f"{name} must be a number")
    return found


def _float(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("an option unsecuredLoginNumberClaim_… is not a number") from None


def _list(value: str) -> list[str]:
    """Values whose separator is the first character."""
    return value[1:].split(value[0]) if len(value) > 1 else []
