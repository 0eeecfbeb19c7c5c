"""The properties of OAUTHBEARER: what a broker does not start with."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.base.config import ConfigError
from kwire.base.config.definitions import default_of
from kwire.security.oauth.settings import (
    UNSECURED_VALIDATOR,
    VALIDATOR,
    KeysSettings,
    SignedSettings,
    file_path,
    token_settings,
)
from kwire.security.oauth.signed import TokenRules
from kwire.security.oauth.unsecured import UnsecuredRules

URL = "https://issuer.example/keys"
PREFIX = "sasl.oauthbearer."


def settings(
    handler: str | None = None, options: dict[str, str] | None = None, **properties: Any
) -> SignedSettings | UnsecuredRules:
    """Of the properties ``sasl.oauthbearer.…``, with ``_`` for ``.``."""
    given = {PREFIX + name.replace("_", "."): value for name, value in properties.items()}
    found = given.get(f"{PREFIX}jwks.endpoint.url", "")

    def value(name: str) -> Any:
        return given[name] if name in given else default_of(name)

    return token_settings(value, handler, options or {}, [URL] if found != "allowed" else [])


@pytest.mark.parametrize("handler", [None, VALIDATOR])
def test_the_defaults_are_kafkas(handler: str | None) -> None:
    assert settings(handler, jwks_endpoint_url=URL) == SignedSettings(TokenRules(), KeysSettings(URL))


def test_every_property_is_read() -> None:
    found = settings(
        options={"ssl.truststore.location": "/trust.pem", "other": "x"},
        jwks_endpoint_url=f" {URL} ",
        jwks_endpoint_refresh_ms=1,
        jwks_endpoint_retry_backoff_ms=2,
        jwks_endpoint_retry_backoff_max_ms=3,
        expected_issuer=" me ",
        expected_audience=("a", "b"),
        clock_skew_seconds=0,
        scope_claim_name="scp",
        sub_claim_name=" email ",
    )
    keys = KeysSettings(URL, 1, 2, 3, {"ssl.truststore.location": "/trust.pem"})
    assert found == SignedSettings(TokenRules("me", ("a", "b"), 0, "scp", "email"), keys)


@pytest.mark.parametrize("handler", [None, VALIDATOR])
@pytest.mark.parametrize("url", [None, "", " "])
def test_without_keys_a_broker_does_not_start(handler: str | None, url: str | None) -> None:
    with pytest.raises(ConfigError, match=r"^sasl\.oauthbearer\.jwks\.endpoint\.url: must be set for OAUTHBEARER"):
        settings(handler, jwks_endpoint_url=url)


def test_unsecured_tokens_have_to_be_asked_for_by_name() -> None:
    options = {"unsecuredValidatorAllowableClockSkewMs": "5"}
    assert settings(UNSECURED_VALIDATOR, options) == UnsecuredRules(clock_skew_ms=5)
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config: unsecuredValidatorAllowableClockSkewMs must be"):
        settings(UNSECURED_VALIDATOR, {"unsecuredValidatorAllowableClockSkewMs": "x"})


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({"jwks_endpoint_url": "https://other.example/keys"}, "is not one of kwire.sasl.oauthbearer.allowed.urls"),
        ({"jwks_endpoint_url": URL + "/"}, "is not one of kwire.sasl.oauthbearer.allowed.urls"),
        ({"jwks_endpoint_url": "keys.json"}, "must be a URL with https, http or file"),
        ({"jwks_endpoint_url": "ftp://host/keys"}, "must be a URL with https, http or file"),
        ({"jwks_endpoint_url": "https:///keys"}, "must be a URL with https, http or file"),
        ({"jwks_endpoint_url": "file://host/keys"}, "must be a URL with https, http or file"),
        ({"jwks_endpoint_url": "https://host/keys\r\nX: y"}, "must be a URL with https, http or file"),
        ({"jwks_endpoint_url": "https://host:99999/keys"}, "is not a URL"),
        ({"jwks_endpoint_url": "https://[/keys"}, "is not a URL"),
        ({"jwks_endpoint_url": "https://user:secret@host/keys"}, "must not have a user or a password"),
        ({"jwks_endpoint_url": URL, "jwks_endpoint_refresh_ms": 0}, "must be at least 1"),
        ({"jwks_endpoint_url": URL, "jwks_endpoint_retry_backoff_ms": -1}, "must be at least 1"),
        ({"jwks_endpoint_url": URL, "clock_skew_seconds": -1}, "must not be negative"),
        ({"jwks_endpoint_url": URL, "sub_claim_name": " "}, "must not be blank"),
        ({"jwks_endpoint_url": URL, "scope_claim_name": ""}, "must not be blank"),
    ],
)
def test_a_wrong_property_is_one_line(properties: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(**properties)
    assert line in str(raised.value)
    assert str(raised.value).startswith("sasl.oauthbearer.")
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_other_validators_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Validator: is not supported for OAUTHBEARER"):
        settings("com.example.Validator", jwks_endpoint_url=URL)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///etc/a%20b.json", "/etc/a b.json"),
        ("file:/etc/keys", "/etc/keys"),
        ("file://localhost/k", "/k"),
        (URL, None),
    ],
)
def test_file_urls_have_a_path(url: str, path: str | None) -> None:
    assert file_path(url) == path
