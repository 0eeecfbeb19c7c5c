"""The keys of an issuer, and when they are fetched: at start, every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and
when a token names a key that is unknown.

A fetch that fails is repeated with growing delays, for `retry.backoff.max.ms` in all, as in Kafka; then the old keys
stay, until the next time. Tokens with unknown keys cost an issuer at most one fetch in `UNKNOWN_KEY_PAUSE_S`, whatever
their keys are called; Kafka fetches for each new name. A login with such a token waits for the fetch, while in Kafka it
fails and has to be tried again. What lives elsewhere: the fetch (`fetch`), keys and tokens (`kwire.security.oauth`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.security.oauth.keys import KeySet
from kwire.server.oauth.fetch import FetchError

if TYPE_CHECKING:
    from kwire.base.doors import Clock
    from kwire.security.oauth.settings import KeysSettings

    Fetch = Callable[[], Awaitable[bytes]]
    """Fetches the set of keys; `FetchError`."""

UNKNOWN_KEY_PAUSE_S: Final = 10.0
"""Seconds between two fetches for the sake of unknown keys."""

WAIT_S: Final = 5.0
"""Seconds that a login waits for a fetch at most."""

_log = get_logger("kwire.server")


async def fetched_keys(fetch: Fetch, settings: KeysSettings, clock: Clock) -> KeySet:
    """The keys as they are now; attempts that fail are repeated for a while. `FetchError`, one line without the URL."""
    deadline = clock.monotonic() + settings.retry_backoff_max_ms / 1000
    delay_s = settings.retry_backoff_ms / 1000
    while True:
        try:
            return KeySet.parse(await fetch())
        except (FetchError, ValueError) as error:
            if clock.monotonic() + delay_s > deadline:
                raise FetchError(str(error)) from None
        await asyncio.sleep(delay_s)
        delay_s *= 2


class IssuerKeys:
    """The keys of an issuer, kept up to date between `start` and `close`; ``keys`` is replaced as a whole."""

    def __init__(self, keys: KeySet, fetch: Fetch, settings: KeysSettings, clock: Clock) -> None:
        self.keys = keys
        self._fetch = fetch
        self._settings = settings
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._refresh: asyncio.Task[None] | None = None
        self._next_for_unknown_s = clock.monotonic()

    def start(self) -> None:
        """Fetch the keys from time to time from now on."""
        delay_s = self._settings.refresh_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._due)

    async def close(self) -> None:
        """Fetch nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._refresh is not None and not self._refresh.done():
            self._refresh.cancel()
            await asyncio.wait([self._refresh])

    def refreshed(self) -> Awaitable[None] | None:
        """Fetch the keys, because a token names one that is unknown, and wait for it; None if this was done a moment
        ago."""
        if self._is_refreshing():
            return self._wait()
        now_s = self._clock.monotonic()
        if now_s < self._next_for_unknown_s:
            return None
        self._next_for_unknown_s = now_s + UNKNOWN_KEY_PAUSE_S
        self._begin()
        return self._wait()

    def _due(self) -> None:
        if not self._is_refreshing():
            self._begin()
        self.start()

    def _is_refreshing(self) -> bool:
        return self._refresh is not None and not self._refresh.done()

    def _begin(self) -> None:
        self._refresh = asyncio.get_running_loop().create_task(self._fetch_all())

    async def _wait(self) -> None:
        assert self._refresh is not None
        await asyncio.wait([self._refresh], timeout=WAIT_S)

    async def _fetch_all(self) -> None:
        url = self._settings.url
        try:
            self.keys = await fetched_keys(self._fetch, self._settings, self._clock)
        except FetchError as error:
            _log.warning("the keys of an OAuth issuer cannot be fetched: the old ones stay", url=url, error=str(error))
        else:
            _log.info("the keys of an OAuth issuer have been fetched", url=url, keys=len(self.keys))
