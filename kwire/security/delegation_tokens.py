"""Delegation tokens (KIP-48), and the rules by which they are created, renewed and expired.

A client that has a token's HMAC can log in as the token's owner: with SCRAM, the token id as the user name and the HMAC
in base64 as the password. The HMAC is computed from the token id with `delegation.token.secret.key`, which all brokers
of a cluster share. The rules are pure; times are milliseconds since 1970. What lives elsewhere: who may request tokens
(`kwire.handlers.security`), where they are kept (`kwire.cluster.metadata.credentials`).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.security.principals import USER_TYPE, Principal

TIME_MAX_MS: Final = 2**63 - 1
"""The latest time that Kafka's requests can carry; larger sums are reduced to it."""


class DelegationToken(NamedTuple):
    """A token. After ``expiry_ms`` it is invalid; renewing it moves ``expiry_ms``, at most to ``max_ms``."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    max_ms: int
    expiry_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether it has expired."""
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    def is_visible_to(self, principal: Principal) -> bool:
        """Whether a principal may describe it without further authorisation: owner, requester and renewers may."""
        return principal in (self.owner, self.requester) or principal in self.renewers

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Whether a principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers


class TokenLifetimes(NamedTuple):
    """The limits of a cluster's tokens: `delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`."""

    max_ms: int
    renewal_ms: int


def token_hmac(secret: str, token_id: str) -> bytes:
    """The HMAC-SHA-512 of a token id: the token's secret."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(hmac_bytes: bytes) -> str:
    """The password of a login with a token."""
    return base64.b64encode(hmac_bytes).decode("ascii")


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Sequence[Principal],
    *,
    lifetime_ms: int,
    limits: TokenLifetimes,
    now_ms: int,
) -> DelegationToken:
    """A new token. ``lifetime_ms``: the lifetime that the client requests, which counts if it is positive and less than
    the limit. INVALID_PRINCIPAL_TYPE if a renewer is not a user."""
    check_renewers(renewers)
    wanted = min(limits.max_ms, lifetime_ms) if lifetime_ms > 0 else limits.max_ms
    max_ms = _sum(now_ms, wanted)
    expiry_ms = min(max_ms, _sum(now_ms, limits.renewal_ms))
    return DelegationToken(token_id, owner, requester, tuple(renewers), now_ms, max_ms, expiry_ms)


def check_renewers(renewers: Sequence[Principal]) -> None:
    """INVALID_PRINCIPAL_TYPE if a renewer is not a user."""
    if any(each.type != USER_TYPE for each in renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def renewed(
    token: DelegationToken, by: Principal, *, period_ms: int, limits: TokenLifetimes, now_ms: int
) -> DelegationToken:
    """A token after RenewDelegationToken. DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH."""
    _check_not_expired(token, now_ms)
    _check_renewer(token, by)
    wanted = min(limits.renewal_ms, period_ms) if period_ms > 0 else limits.renewal_ms
    return token._replace(expiry_ms=min(token.max_ms, _sum(now_ms, wanted)))


def expired(token: DelegationToken, by: Principal, *, period_ms: int, now_ms: int) -> DelegationToken | None:
    """A token after ExpireDelegationToken: it expires ``period_ms`` from now. None if it expires at once: the period is
    negative, which also works for an expired token. DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED."""
    _check_renewer(token, by)
    if period_ms < 0:
        return None
    _check_not_expired(token, now_ms)
    return token._replace(expiry_ms=min(token.max_ms, _sum(now_ms, period_ms)))


def _check_renewer(token: DelegationToken, principal: Principal) -> None:
    if not token.may_be_renewed_by(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _check_not_expired(token: DelegationToken, now_ms: int) -> None:
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, TIME_MAX_MS)
