"""What listeners check tokens with: warnings at each start, and whom an issuer's server is trusted by."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.oauth_issuer import jwk, jwks, signed
from harness.processes.oauth import OAuthServer, Request
from kwire.base.config import ConfigError
from kwire.base.doors import Doors
from kwire.base.futures import is_later
from kwire.security.oauth.settings import KeysSettings, SignedSettings
from kwire.security.oauth.signed import TokenRules
from kwire.security.oauth.tokens import TokenRefused
from kwire.security.oauth.unsecured import UnsecuredRules
from kwire.server.errors import StartError
from kwire.server.oauth.checks import token_checks
from kwire.testing.certificates import Authority

SAFE = TokenRules("issuer", ("kafka",))


def keys(url: str, **more: Any) -> KeysSettings:
    return KeysSettings(url, retry_backoff_max_ms=1, **more)


async def checks(settings: dict[str, Any]) -> None:
    doors = Doors()
    async with AsyncExitStack() as stack:
        stack.callback(doors.executor.close)
        assert (await token_checks(doors, settings, stack)).keys() == settings.keys()


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "keys.json"
    path.write_bytes(jwks(jwk("RSA")))
    return path.as_uri()


@pytest.mark.parametrize(
    ("rules", "warning"),
    [
        (TokenRules(), "made for other services"),
        (TokenRules("issuer"), "made for other services"),
        (TokenRules(None, ("kafka",)), "made for other services"),
        (UnsecuredRules(), "any client can log in as any user"),
        (SAFE, ""),
    ],
)
async def test_each_start_warns_of_unsafe_rules(url: str, capsys: Any, rules: Any, warning: str) -> None:
    await checks({"CLIENTS": rules if isinstance(rules, UnsecuredRules) else SignedSettings(rules, keys(url))})
    written = capsys.readouterr().err
    assert (warning in written) if warning else not written


async def test_each_start_warns_of_keys_that_others_can_change(capsys: Any) -> None:
    with pytest.raises(StartError, match=r"^sasl\.oauthbearer\.jwks\.endpoint\.url=http://127\.0\.0\.2:1/: "):
        await checks({"CLIENTS": SignedSettings(SAFE, keys("http://127.0.0.2:1/"))})
    assert "use https" in capsys.readouterr().err


async def test_the_login_module_says_whom_an_issuers_server_is_trusted_by(tmp_path: Path) -> None:
    given = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(Authority(tmp_path).path)}
    with pytest.raises(StartError, match="Connection refused"):
        await checks({"CLIENTS": SignedSettings(SAFE, keys("https://127.0.0.1:1/", tls_options=given))})
    given["ssl.truststore.location"] = str(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"^ssl\.truststore\.location: .*login module"):
        await checks({"CLIENTS": SignedSettings(SAFE, keys("https://127.0.0.1:1/", tls_options=given))})


async def test_an_issuer_that_hangs_does_not_delay_the_end(capsys: Any) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def before(_: Request) -> None:
        if len(server.requests) > 1:
            hangs.set()
            goes_on.wait()

    doors = Doors()
    with OAuthServer(before=before) as server:
        async with AsyncExitStack() as stack:
            stack.callback(doors.executor.close)
            check = (await token_checks(doors, {"CLIENTS": SignedSettings(SAFE, keys(server.jwks_url))}, stack))[
                "CLIENTS"
            ]
            checked = check(signed(headers={"kid": "unknown"}))
            assert is_later(checked)
            await asyncio.to_thread(hangs.wait)
        goes_on.set()  # only now: the keys were still being fetched when everything had ended
        with pytest.raises(TokenRefused):
            await checked
    assert "cannot be fetched" not in capsys.readouterr().err
