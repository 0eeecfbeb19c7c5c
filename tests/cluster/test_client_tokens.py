"""A client's token: got once, renewed before it expires, kept while the issuer is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.simulation.world import EPOCH_MS, Simulation
from kwire.cluster import client_tokens
from kwire.cluster.client_tokens import PAUSE_S, ClientTokens
from kwire.security.client import client_security
from kwire.security.oauth.client import ExpiringToken, TokenClient, Unavailable

LIFETIME_S = 1000.0


class Issuer:
    """Tokens that live for `LIFETIME_S`; ``failure`` instead of the next ones."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.given = 0
        self.attempts = 0
        self.failure: Unavailable | None = None

    def retrieve(self, _client: TokenClient, _doors: Any) -> ExpiringToken:
        self.attempts += 1
        if self.failure is not None:
            raise self.failure
        self.given += 1
        now_s = EPOCH_MS / 1000 + self._simulation.elapsed_s
        return ExpiringToken(f"token {self.given}", now_s, now_s + LIFETIME_S)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[ClientTokens, Issuer], Any]], None]:
    """Run a scenario on virtual time."""
    security = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            "sasl.oauthbearer.token.endpoint.url": "http://issuer/token",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "secret",
        }
    )
    assert security.token_client is not None

    def play(scenario: Callable[[ClientTokens, Issuer], Any]) -> None:
        simulation = Simulation(1)
        issuer = Issuer(simulation)
        monkeypatch.setattr(client_tokens, "retrieve", issuer.retrieve)

        async def main() -> None:
            await scenario(ClientTokens(simulation.machine("host").doors, security.token_client), issuer)  # type: ignore[arg-type]

        simulation.run(main())

    return play


def test_a_token_is_got_once_and_renewed_before_it_expires(run: Any) -> None:
    async def scenario(tokens: ClientTokens, issuer: Issuer) -> None:
        found = await asyncio.gather(*(tokens.token() for _ in range(3)))
        assert found == ["token 1"] * 3
        await asyncio.sleep(LIFETIME_S * 0.69)
        assert await tokens.token() == "token 1"
        await asyncio.sleep(LIFETIME_S * 0.02)  # 300 s before the end
        assert await tokens.token() == "token 2"
        assert issuer.attempts == 2

    run(scenario)


def test_an_old_token_stays_while_the_issuer_is_away_and_until_it_expires(run: Any) -> None:
    async def scenario(tokens: ClientTokens, issuer: Issuer) -> None:
        await tokens.token()
        issuer.failure = Unavailable("HTTP status 401", final=True)
        await asyncio.sleep(LIFETIME_S * 0.9)
        assert await tokens.token() == "token 1"
        assert await tokens.token() == "token 1"
        assert issuer.attempts == 2  # not for each login
        await asyncio.sleep(PAUSE_S)
        assert await tokens.token() == "token 1"
        assert issuer.attempts == 3
        await asyncio.sleep(LIFETIME_S)
        with pytest.raises(Unavailable, match="401"):
            await tokens.token()
        issuer.failure = None
        assert await tokens.token() == "token 2"

    run(scenario)


def test_an_attempt_that_fails_is_repeated_for_a_while(run: Any) -> None:
    async def scenario(tokens: ClientTokens, issuer: Issuer) -> None:
        issuer.failure = Unavailable("HTTP status 500")
        with pytest.raises(Unavailable, match="500"):
            await tokens.token()
        assert issuer.attempts == 7  # after 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s

        waiting = asyncio.ensure_future(tokens.token())
        await asyncio.sleep(1)
        issuer.failure = None
        assert await waiting == "token 1"

    run(scenario)


def test_a_refusal_is_final(run: Any) -> None:
    async def scenario(tokens: ClientTokens, issuer: Issuer) -> None:
        issuer.failure = Unavailable("HTTP status 401", final=True)
        with pytest.raises(Unavailable):
            await tokens.token()
        assert issuer.attempts == 1

    run(scenario)


def test_an_issuer_that_hangs_delays_the_logins_of_one_moment_only(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_tokens: ClientTokens) -> ExpiringToken:
        await asyncio.sleep(2 * PAUSE_S)
        raise Unavailable("timed out")

    async def scenario(tokens: ClientTokens, issuer: Issuer) -> None:
        loop = asyncio.get_running_loop()
        await tokens.token()
        monkeypatch.setattr(ClientTokens, "_retrieved", hang)
        await asyncio.sleep(LIFETIME_S * 0.75)
        started_s = loop.time()
        assert await asyncio.gather(*(tokens.token() for _ in range(3))) == ["token 1"] * 3
        assert loop.time() - started_s == pytest.approx(2 * PAUSE_S)

        await asyncio.sleep(PAUSE_S)
        with pytest.raises(TimeoutError):  # a login has a time limit of its own
            await asyncio.wait_for(tokens.token(), PAUSE_S)
        started_s = loop.time()
        assert await tokens.token() == "token 1"
        assert loop.time() == started_s

    run(scenario)
