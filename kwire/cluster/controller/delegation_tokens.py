"""`DelegationTokens`: decisions about delegation tokens (KIP-48), and the removal of expired ones.

Unlike most decisions these are made by the broker that gets the request, not by the controller: each concerns one key,
and so the client's principal need not be sent to another broker, which would have to trust it. Only the controller
removes expired tokens.

What lives elsewhere: the rules (`kwire.security.delegation_tokens`), who may ask (`kwire.handlers.security`), logins
with a token (`kwire.cluster.metadata.token_logins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cluster.metadata.credentials import pack_token
from kwire.cluster.store import keys
from kwire.security import delegation_tokens as rules
from kwire.security.delegation_tokens import TokenLifetimes, token_hmac

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.controller.decisions import Decisions
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.security.delegation_tokens import DelegationToken
    from kwire.security.principals import Principal

REMOVED_AT_ONCE_MAX: Final = 1000
"""Expired tokens that one commit removes."""

_logger = get_logger("kwire.cluster.tokens")


class DelegationTokens:
    """The tokens of a cluster, for one broker. Every method raises DELEGATION_TOKEN_AUTH_DISABLED without
    `delegation.token.secret.key`."""

    def __init__(self, doors: Doors, config: KafkaConfig, decisions: Decisions) -> None:
        self._time_ms = doors.clock.time_ms
        self._random = doors.random
        self._config = config
        self._decisions = decisions
        self._ids: dict[bytes, str] = {}  # token ids by HMAC

    @property
    def enabled(self) -> bool:
        """Whether there is a secret key."""
        return bool(self._config.delegation_token_secret_key)

    @property
    def _limits(self) -> TokenLifetimes:
        return TokenLifetimes(
            self._config.delegation_token_max_lifetime_ms, self._config.delegation_token_expiry_time_ms
        )

    def _require_enabled(self) -> str:
        """The secret key."""
        key = self._config.delegation_token_secret_key
        if not key:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return key

    def hmac(self, token_id: str) -> bytes:
        """The secret of a token."""
        return token_hmac(self._require_enabled(), token_id)

    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], lifetime_ms: int
    ) -> DelegationToken:
        """A new token. INVALID_PRINCIPAL_TYPE if a renewer is not a user."""
        self._require_enabled()
        token_id = uuid_to_text(random_uuid(self._random))
        now_ms = self._time_ms()
        token = rules.new_token(
            token_id, owner, requester, renewers, lifetime_ms=lifetime_ms, limits=self._limits, now_ms=now_ms
        )

        def decide(image: ClusterImage, plan: Plan) -> None:
            plan.write(keys.delegation_token_key(token_id), pack_token(token))

        await self._decisions.decide(decide, as_controller=False)
        _logger.info("delegation token created", token=token_id, owner=str(owner), requester=str(requester))
        return token

    async def renew(self, hmac: bytes, by: Principal, period_ms: int) -> int:
        """Renew the token with an HMAC; when it expires now. DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
        DELEGATION_TOKEN_OWNER_MISMATCH."""
        token_id = await self._find(hmac)

        def decide(image: ClusterImage, plan: Plan) -> int:
            token = rules.renewed(
                _token(image, token_id), by, period_ms=period_ms, limits=self._limits, now_ms=self._time_ms()
            )
            plan.write(keys.delegation_token_key(token_id), pack_token(token))
            return token.expiry_ms

        return await self._decisions.decide(decide, as_controller=False)

    async def expire(self, hmac: bytes, by: Principal, period_ms: int) -> int:
        """Have the token with an HMAC expire earlier or later, or remove it; when it expires now. The errors of
        `renew`."""
        token_id = await self._find(hmac)

        def decide(image: ClusterImage, plan: Plan) -> int:
            now_ms = self._time_ms()
            token = rules.expired(_token(image, token_id), by, period_ms=period_ms, now_ms=now_ms)
            plan.write(keys.delegation_token_key(token_id), None if token is None else pack_token(token))
            return now_ms if token is None else token.expiry_ms

        return await self._decisions.decide(decide, as_controller=False)

    async def remove_expired(self) -> int:
        """As the controller, remove up to `REMOVED_AT_ONCE_MAX` expired tokens; how many."""

        def decide(image: ClusterImage, plan: Plan) -> list[DelegationToken]:
            now_ms = self._time_ms()
            gone = [token for token in image.delegation_tokens.values() if token.is_expired(now_ms)]
            for token in gone[:REMOVED_AT_ONCE_MAX]:
                plan.write(keys.delegation_token_key(token.id), None)
            return gone[:REMOVED_AT_ONCE_MAX]

        gone = await self._decisions.decide(decide)
        for token in gone:
            _logger.info("delegation token expired", token=token.id, owner=str(token.owner))
        return len(gone)

    async def _find(self, hmac: bytes) -> str:
        """The id of the token with an HMAC. It may have been created by another broker a moment ago."""
        found = self._id_of(hmac)
        if found is None:
            await self._decisions.catch_up()
            found = self._id_of(hmac)
        if found is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return found

    def _id_of(self, hmac: bytes) -> str | None:
        key, tokens = self._require_enabled(), self._decisions.image.delegation_tokens
        if len(self._ids) > 2 * len(tokens):
            self._ids.clear()
        known = set(self._ids.values())
        self._ids.update((token_hmac(key, token_id), token_id) for token_id in tokens if token_id not in known)
        found = self._ids.get(hmac)
        return found if found in tokens else None


def _token(image: ClusterImage, token_id: str) -> DelegationToken:
    token = image.delegation_token(token_id)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token
