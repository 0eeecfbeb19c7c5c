"""The rules by which delegation tokens are made, renewed and expired, and their HMACs."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from kwire.base.errors import KafkaError
from kwire.security.delegation_tokens import (
    TIME_MAX_MS,
    DelegationToken,
    TokenLifetimes,
    expired,
    new_token,
    renewed,
    token_hmac,
    token_password,
)
from kwire.security.principals import Principal

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
LIMITS = TokenLifetimes(max_ms=1000, renewal_ms=300)


def token(**fields: int) -> DelegationToken:
    """A token of alice, requested by bob at 5,000; carol may renew it."""
    made = new_token("id", ALICE, BOB, [CAROL], lifetime_ms=-1, limits=LIMITS, now_ms=5000)
    return made._replace(**fields)  # type: ignore[arg-type] # mypy checks each field against each type


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry_ms", "max_ms"),
    [(-1, 5300, 6000), (0, 5300, 6000), (200, 5200, 5200), (500, 5300, 5500), (2**63 - 1, 5300, 6000)],
)
def test_a_new_token_lives_as_long_as_the_client_wants_within_the_limits(
    lifetime_ms: int, expiry_ms: int, max_ms: int
) -> None:
    made = new_token("id", ALICE, BOB, [CAROL], lifetime_ms=lifetime_ms, limits=LIMITS, now_ms=5000)
    assert made == DelegationToken("id", ALICE, BOB, (CAROL,), 5000, max_ms, expiry_ms)


def test_times_end_where_kafkas_numbers_end() -> None:
    limits = TokenLifetimes(TIME_MAX_MS, TIME_MAX_MS)
    made = new_token("id", ALICE, BOB, [], lifetime_ms=-1, limits=limits, now_ms=5000)
    assert (made.max_ms, made.expiry_ms) == (TIME_MAX_MS, TIME_MAX_MS)
    assert renewed(made, ALICE, period_ms=TIME_MAX_MS, limits=limits, now_ms=6000).expiry_ms == TIME_MAX_MS


@pytest.mark.parametrize(
    ("now_ms", "period_ms", "expiry_ms"),
    [(5100, -1, 5400), (5100, 0, 5400), (5100, 50, 5150), (5100, 10**9, 5400), (5300, -1, 5600)],
)
def test_a_renewal_counts_from_now(now_ms: int, period_ms: int, expiry_ms: int) -> None:
    assert renewed(token(), ALICE, period_ms=period_ms, limits=LIMITS, now_ms=now_ms).expiry_ms == expiry_ms


def test_no_renewal_exceeds_the_maximal_lifetime() -> None:
    late = token(expiry_ms=6000)
    assert renewed(late, CAROL, period_ms=-1, limits=LIMITS, now_ms=5900).expiry_ms == 6000
    assert expired(late, CAROL, period_ms=10**9, now_ms=5900) == late


def test_expiring_moves_the_end_or_removes_the_token() -> None:
    assert expired(token(), ALICE, period_ms=0, now_ms=5100) == token(expiry_ms=5100)
    assert expired(token(), ALICE, period_ms=700, now_ms=5100) == token(expiry_ms=5800)
    assert expired(token(), ALICE, period_ms=-1, now_ms=5100) is None


def test_only_owner_and_renewers_change_a_token_but_the_requester_sees_it() -> None:
    assert [token().may_be_renewed_by(each) for each in (ALICE, BOB, CAROL)] == [True, False, True]
    assert [token().is_visible_to(each) for each in (ALICE, BOB, CAROL)] == [True, True, True]
    assert not token().is_visible_to(Principal("User", "dave"))
    with pytest.raises(KafkaError, match="OWNER_MISMATCH"):
        renewed(token(), BOB, period_ms=-1, limits=LIMITS, now_ms=5100)
    with pytest.raises(KafkaError, match="OWNER_MISMATCH"):
        expired(token(), BOB, period_ms=-1, now_ms=9999)


def test_an_expired_token_cannot_be_renewed_but_removed() -> None:
    assert not token().is_expired(5300)
    assert token().is_expired(5301)
    with pytest.raises(KafkaError, match="TOKEN_EXPIRED"):
        renewed(token(), BOB, period_ms=-1, limits=LIMITS, now_ms=5301)
    with pytest.raises(KafkaError, match="TOKEN_EXPIRED"):
        expired(token(), ALICE, period_ms=10, now_ms=5301)
    assert expired(token(), ALICE, period_ms=-1, now_ms=5301) is None


def test_renewers_are_users() -> None:
    with pytest.raises(KafkaError, match="INVALID_PRINCIPAL_TYPE"):
        new_token("id", ALICE, ALICE, [BOB, Principal("Group", "x")], lifetime_ms=-1, limits=LIMITS, now_ms=0)


def test_the_hmac_is_kafkas() -> None:
    made = token_hmac("sécret", "token-id")
    assert made == hmac.new("sécret".encode(), b"token-id", hashlib.sha512).digest()
    assert token_password(made) == base64.b64encode(made).decode()
