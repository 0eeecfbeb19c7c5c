"""An issuer's keys: when they are fetched, and that unknown keys in tokens do not make a broker fetch for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.oauth_issuer import NOW_MS, Kind, jwk, jwks, signed
from harness.simulation.world import Simulation
from kwire.base.doors import Clock
from kwire.security.oauth.keys import KeySet
from kwire.security.oauth.settings import KeysSettings
from kwire.security.oauth.signed import SignedTokens, TokenRules
from kwire.security.oauth.tokens import TokenRefused
from kwire.server.oauth.fetch import FetchError
from kwire.server.oauth.keys import UNKNOWN_KEY_PAUSE_S, WAIT_S, IssuerKeys, fetched_keys

SETTINGS = KeysSettings("https://issuer/keys", refresh_ms=60_000, retry_backoff_ms=100, retry_backoff_max_ms=1000)


class Issuer:
    """Serves keys, after ``delay_s``; or fails as often as ``failures`` says."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = ["RSA"]
        self.times: list[float] = []
        self.failures = 0
        self.delay_s = 0.0

    async def fetch(self) -> bytes:
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.delay_s)
        if self.failures:
            self.failures -= 1
            raise FetchError("connection refused")
        return jwks(*(jwk(kind) for kind in self.kinds))


class Listener:
    """What a listener has of an issuer."""

    def __init__(self, issuer: Issuer) -> None:
        loop = asyncio.get_running_loop()
        self.issuer = issuer
        clock = Clock(lambda: NOW_MS, loop.time, loop.time)
        self.keys = IssuerKeys(KeySet.parse(jwks(jwk("RSA"))), issuer.fetch, SETTINGS, clock)
        self.check = SignedTokens(TokenRules(), self.keys, clock.time_ms)

    async def accepts(self, token: str) -> bool:
        try:
            found = self.check(token)
            if not isinstance(found, tuple):
                await found
        except TokenRefused:
            return False
        return True


def simulated(scenario: Callable[[Listener], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        listener = Listener(Issuer())
        listener.keys.start()
        await scenario(listener)
        await listener.keys.close()

    Simulation(1).run(whole())


def test_keys_are_fetched_from_time_to_time() -> None:
    async def scenario(listener: Listener) -> None:
        await asyncio.sleep(60 * 3 + 1)
        assert len(listener.issuer.times) == 3
        listener.issuer.kinds = ["P-256"]
        await asyncio.sleep(60)
        assert not await listener.accepts(signed(headers={}))
        assert await listener.accepts(signed("P-256", "ES256"))

    simulated(scenario)


def test_a_closed_listener_fetches_nothing() -> None:
    async def scenario(listener: Listener) -> None:
        listener.issuer.delay_s = 3
        await asyncio.sleep(61)
        await listener.keys.close()
        await asyncio.sleep(600)
        assert len(listener.issuer.times) == 1

    simulated(scenario)


def test_a_login_with_a_new_key_waits_for_it() -> None:
    async def scenario(listener: Listener) -> None:
        listener.issuer.kinds = ["RSA", "P-256", "P-384"]
        listener.issuer.delay_s = 1
        tokens = [signed("P-256", "ES256"), signed("P-384", "ES384"), signed("P-256", "ES256")]
        assert await asyncio.gather(*map(listener.accepts, tokens)) == [True, True, True]
        assert len(listener.issuer.times) == 1

    simulated(scenario)


def test_a_flood_of_unknown_keys_costs_the_issuer_little() -> None:
    async def scenario(listener: Listener) -> None:
        for number in range(1000):
            assert not await listener.accepts(signed("RSA", headers={"kid": f"unknown {number}"}))
            await asyncio.sleep(0.05)  # 50 seconds in all
        assert len(listener.issuer.times) == 50 / UNKNOWN_KEY_PAUSE_S
        assert await listener.accepts(signed())

    simulated(scenario)


def test_a_key_that_comes_during_a_flood_is_known_soon() -> None:
    async def scenario(listener: Listener) -> None:
        assert not await listener.accepts(signed("RSA", headers={"kid": "unknown"}))
        listener.issuer.kinds = ["P-256"]
        assert not await listener.accepts(signed("P-256", "ES256"))
        await asyncio.sleep(UNKNOWN_KEY_PAUSE_S)
        assert await listener.accepts(signed("P-256", "ES256"))

    simulated(scenario)


def test_a_login_does_not_wait_long_for_an_issuer_that_hangs() -> None:
    async def scenario(listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        listener.issuer.delay_s = 100
        begin = loop.time()
        tokens = [signed("P-256", "ES256")] * 50
        assert not any(await asyncio.gather(*map(listener.accepts, tokens)))
        assert loop.time() - begin == pytest.approx(WAIT_S)
        assert await listener.accepts(signed())
        assert len(listener.issuer.times) == 1

    simulated(scenario)


def test_old_keys_stay_while_the_issuer_is_gone() -> None:
    async def scenario(listener: Listener) -> None:
        listener.issuer.failures = 1000
        await asyncio.sleep(65)
        attempts = [round(time - listener.issuer.times[0], 3) for time in listener.issuer.times]
        assert attempts == [0, 0.1, 0.3, 0.7]  # growing delays, one second in all
        assert await listener.accepts(signed())
        listener.issuer.failures = 0
        listener.issuer.kinds = ["P-256"]
        await asyncio.sleep(60)
        assert await listener.accepts(signed("P-256", "ES256"))

    simulated(scenario)


def fetched(issuer: Issuer) -> tuple[KeySet, float]:
    """The first keys, and how many seconds it took."""

    async def scenario() -> tuple[KeySet, float]:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        clock = Clock(lambda: NOW_MS, loop.time, loop.time)
        return await fetched_keys(issuer.fetch, SETTINGS, clock), loop.time() - begin

    return Simulation(1).run(scenario())


def test_a_start_waits_a_moment_for_the_issuer() -> None:
    issuer = Issuer()
    issuer.failures = 3
    keys, elapsed_s = fetched(issuer)
    assert len(keys) == 1
    assert elapsed_s == pytest.approx(0.7)


def test_a_start_without_the_issuer_fails() -> None:
    issuer = Issuer()
    issuer.failures = 1000
    with pytest.raises(FetchError, match=r"^connection refused$"):
        fetched(issuer)


def test_a_start_without_usable_keys_fails() -> None:
    issuer = Issuer()
    issuer.kinds = ["short RSA"]
    with pytest.raises(FetchError, match="none of its keys can verify signatures"):
        fetched(issuer)
