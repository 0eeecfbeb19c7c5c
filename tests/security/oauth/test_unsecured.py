"""Unsecured tokens: as Kafka's validator for development takes them, and its login makes them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.oauth_issuer import NOW_MS, NOW_S, claims, section, signed, unsecured
from kwire.security.oauth.tokens import BearerToken, TokenRefused
from kwire.security.oauth.unsecured import EXTENSION, UnsecuredRules, UnsecuredTokens, extensions, unsecured_token

ANY = UnsecuredRules()


def checker(rules: UnsecuredRules = ANY) -> UnsecuredTokens:
    return UnsecuredTokens(rules, lambda: NOW_MS)


def test_everybody_may_claim_to_be_anybody() -> None:
    assert checker()(unsecured(sub="admin", exp=NOW_S + 1.5)) == BearerToken("admin", NOW_MS + 1500)


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ({"iat": None}, UnsecuredRules()),
        ({"exp": NOW_S - 1, "iat": NOW_S - 2}, UnsecuredRules(clock_skew_ms=1001)),
        ({"iat": NOW_S + 1}, UnsecuredRules(clock_skew_ms=1000)),
        ({"scope": "a"}, UnsecuredRules(required_scopes=("a",))),
        ({"scp": ["a ", "b"]}, UnsecuredRules(scope_claim="scp", required_scopes=("b", "a"))),
        ({"sub": None, "email": "alice"}, UnsecuredRules(subject_claim="email")),
    ],
)
def test_claims_that_fit_are_accepted(more: dict[str, Any], rules: UnsecuredRules) -> None:
    assert checker(rules)(unsecured(**more)).subject == "alice"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"exp": None}, "exp is required"),
        ({"exp": "9999999999"}, "exp is not a date"),
        ({"exp": NOW_S}, "the token has expired"),
        ({"iat": NOW_S + 1}, "the token is of the future"),
        ({"exp": NOW_S + 1, "iat": NOW_S + 1}, "the token is of the future"),
        ({"sub": None}, "there is no sub, or it is no text"),
        ({"sub": 7}, "there is no sub, or it is no text"),
    ],
)
def test_claims_that_do_not_fit_are_refused(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRefused) as raised:
        checker()(unsecured(**more))
    assert str(raised.value) == reason


def test_a_missing_scope_is_named_as_kafka_does() -> None:
    with pytest.raises(TokenRefused) as raised:
        checker(UnsecuredRules(required_scopes=("a", "b")))(unsecured(scope=["b"]))
    assert (raised.value.status, raised.value.scope) == ("insufficient_scope", "[a, b]")


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        signed(),
        unsecured().removesuffix("."),
        unsecured() + "AAAA",
        unsecured() + ".",
        unsecured(header={"alg": "None"}),
        unsecured(header={"alg": "RS256"}),
        unsecured(header={}),
        unsecured(header=[]),
        f"{section({'alg': 'none'})}.{section(b'[' * 100_000)}.",
        f"{section({'alg': 'none'})}.{section(claims())}=.",
    ],
)
def test_what_is_no_unsecured_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        checker()(token)


def test_the_options_of_the_validator_are_read() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": " email ",
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorRequiredScope": " a  b ",
        "unsecuredValidatorAllowableClockSkewMs": " 3000 ",
        "unsecuredLoginStringClaim_sub": "admin",
    }
    assert UnsecuredRules.of(options) == UnsecuredRules("email", "scp", ("a", "b"), 3000)
    assert UnsecuredRules.of({}) == UnsecuredRules()


@pytest.mark.parametrize(
    "options",
    [
        {"unsecuredValidatorAllowableClockSkewMs": "-1"},
        {"unsecuredValidatorAllowableClockSkewMs": "soon"},
        {"unsecuredValidatorAllowableClockSkewMs": str(2**31)},
        {"unsecuredValidatorRequiredScope": 'a"b'},
    ],
)
def test_wrong_options_of_the_validator_are_named(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        UnsecuredRules.of(options)


def test_a_login_makes_the_token_that_its_options_say() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "admin",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginNumberClaim_level": "3.5",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "123",
    }
    token = unsecured_token(options, NOW_MS)
    rules = UnsecuredRules(required_scopes=("a", "b"))
    assert checker(rules)(token) == BearerToken("admin", NOW_MS + 60_000)
    assert extensions(options, EXTENSION) == {"traceId": "123"}


def test_a_login_without_a_lifetime_lasts_an_hour() -> None:
    assert checker()(unsecured_token({"unsecuredLoginStringClaim_sub": "a"}, NOW_MS)).expires_ms == NOW_MS + 3_600_000


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unsecuredLoginStringClaim_sub": " "},
        {"unsecuredLoginPrincipalClaimName": "email", "unsecuredLoginStringClaim_sub": "admin"},
        {"unsecuredLoginStringClaim_sub": "admin", "unsecuredLoginNumberClaim_exp": "1"},
        {"unsecuredLoginStringClaim_sub": "admin", "unsecuredLoginNumberClaim_x": "one"},
        {"unsecuredLoginStringClaim_sub": "admin", "unsecuredLoginLifetimeSeconds": "for ever"},
    ],
)
def test_a_login_that_cannot_be_made_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="unsecuredLogin"):
        unsecured_token(options, NOW_MS)
