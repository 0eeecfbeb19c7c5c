"""`TokenLogins`: what a login with a delegation token is checked against (KIP-48).

The user name is the token id, the password is the token's HMAC in base64. Its SCRAM credential is computed when it is
needed. The salt is computed from the HMAC, so that all brokers have the same one. A token whose time is over does not
log in; Apache Kafka accepts it until its controller has removed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.security.delegation_tokens import token_hmac, token_password
from kwire.security.scram_credentials import ITERATIONS_MIN, make_credential, printable

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.security.delegation_tokens import DelegationToken
    from kwire.security.principals import Principal
    from kwire.security.scram_credentials import ScramCredential, ScramMechanism

KEPT_MAX: Final = 1024
"""Credentials that are kept, the newest: to compute one takes some milliseconds. Nothing is computed for a token that
does not exist."""


class TokenLogins:
    """The tokens of a cluster with `delegation.token.secret.key`, for logins."""

    def __init__(self, secret_key: str, image: Callable[[], ClusterImage], time_ms: Callable[[], int]) -> None:
        self._secret_key = secret_key
        self._image = image
        self._time_ms = time_ms
        self._kept: dict[tuple[ScramMechanism, str], ScramCredential] = {}

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential | None:
        """The credential of a valid token, or None."""
        if self._valid(token_id) is None:
            return None
        kept = self._kept.get((mechanism, token_id))
        if kept is None:
            if len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[mechanism, token_id] = self._make(mechanism, token_id)
        return kept

    def owner(self, token_id: str) -> Principal | None:
        """Who logs in with a valid token, or None."""
        token = self._valid(token_id)
        return None if token is None else token.owner

    def expires_ms(self, token_id: str) -> int | None:
        """When a valid token expires (milliseconds since 1970), or None."""
        token = self._valid(token_id)
        return None if token is None else token.expiry_ms

    def _valid(self, token_id: str) -> DelegationToken | None:
        token = self._image().delegation_token(token_id)
        return None if token is None or token.is_expired(self._time_ms()) else token

    def _make(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        hmac = token_hmac(self._secret_key, token_id)
        salt = printable(mechanism.hmac(hmac, b"salt")).encode()
        return make_credential(mechanism, token_password(hmac), salt, ITERATIONS_MIN)
