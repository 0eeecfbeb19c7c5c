"""The OAuth token of this client, got from an issuer when it is needed, and anew before it expires.

An attempt that fails is repeated with growing pauses, for `sasl.login.retry.backoff.max.ms` in all. While the issuer
cannot be reached, a token that has not expired stays in use. Nothing blocks: attempts run on threads of their own. What
lives elsewhere: an attempt (`kwire.security.oauth.client`), logins (`connector`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.security.oauth.client import ExpiringToken, TokenClient, Unavailable, retrieve

if TYPE_CHECKING:
    from kwire.base.doors import Doors

PAUSE_S: Final = 10.0
"""Seconds until another attempt to renew a token that has not expired."""

_log = get_logger("kwire.security")


class ClientTokens:
    """The token of one client; several logins that need one at a time share a request."""

    def __init__(self, doors: Doors, client: TokenClient) -> None:
        self._doors = doors
        self._client = client
        self._token: ExpiringToken | None = None
        self._refresh_at_s = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """A token that has not expired. `Unavailable`."""
        async with self._lock:
            now_s = self._now_s()
            if self._token is None or now_s >= self._refresh_at_s:
                await self._renew()
            assert self._token is not None
            return self._token.token

    async def _renew(self) -> None:
        old = self._token
        try:
            self._token = await self._retrieved()
        except (Unavailable, asyncio.CancelledError) as error:
            now_s = self._now_s()  # an issuer that hangs has taken its time
            if old is None or old.expires_s <= now_s:
                raise
            self._refresh_at_s = now_s + PAUSE_S
            if isinstance(error, asyncio.CancelledError):
                raise
            _log.warning("the OAuth token cannot be renewed: the old one stays", reason=str(error))
            return
        chance = self._doors.random.random()
        self._refresh_at_s = self._token.refresh_at_s(self._now_s(), self._client.refresh(), chance)

    async def _retrieved(self) -> ExpiringToken:
        """A new token; attempts that fail are repeated for a while."""
        client, clock = self._client, self._doors.clock
        deadline = clock.monotonic() + client.retry_backoff_max_ms / 1000
        delay_s = client.retry_backoff_ms / 1000
        while True:
            try:
                return await self._doors.executor.run_apart(retrieve, client, self._doors)
            except Unavailable as error:
                if error.final or clock.monotonic() + delay_s > deadline:
                    raise
            await asyncio.sleep(delay_s)
            delay_s *= 2

    def _now_s(self) -> float:
        return self._doors.clock.time_ms() / 1000
