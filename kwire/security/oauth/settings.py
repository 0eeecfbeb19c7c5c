"""A listener's settings for OAUTHBEARER's tokens, read from its properties and checked before the broker starts.

They are stricter than Kafka's: without a JWKS endpoint Kafka's default validators check no signature (4.3.1), and
without a callback handler it accepts unsecured tokens. kwire requires the URL of the keys, unless the listener names
`UNSECURED_VALIDATOR`; then the JAAS options of that validator apply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from kwire.base.config import ConfigError
from kwire.security.oauth.signed import TokenRules
from kwire.security.oauth.unsecured import UnsecuredRules

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.security.tls.contexts import ContextFiles

_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer."
VALIDATOR: Final = f"{_OAUTHBEARER}OAuthBearerValidatorCallbackHandler"
UNSECURED_VALIDATOR: Final = f"{_OAUTHBEARER}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
ALLOWED: Final = "kwire.sasl.oauthbearer.allowed.urls"
HANDLER: Final = "sasl.server.callback.handler.class"
JAAS: Final = "sasl.jaas.config"

SCHEMES: Final = ("https", "http", "file")


class KeysSettings(NamedTuple):
    """Where an issuer's keys are fetched from, and how often; times in milliseconds, as the properties
    ``sasl.oauthbearer.jwks.endpoint.…`` have them."""

    url: str
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    tls_options: Mapping[str, str] = {}
    """``ssl.…`` of the login module: how the endpoint's certificate is checked."""


class SignedSettings(NamedTuple):
    """Tokens are signed."""

    rules: TokenRules
    keys: KeysSettings


def token_settings(
    value: Callable[[str], Any], handler: str | None, options: Mapping[str, str], allowed: Collection[str]
) -> SignedSettings | UnsecuredRules:
    """The settings of a listener. ``value`` gives the value of a property for it; ``handler`` is its
    `sasl.server.callback.handler.class`; ``options`` are those of the login module, ``allowed`` the URLs that may be
    used. `ConfigError`."""
    if handler == UNSECURED_VALIDATOR:
        try:
            return UnsecuredRules.of(options)
        except ValueError as error:
            raise ConfigError(JAAS, None, str(error)) from None
    if handler not in (None, VALIDATOR):
        raise ConfigError(HANDLER, handler, f"is not supported for OAUTHBEARER: only {VALIDATOR}")
    return SignedSettings(_rules(value), _keys(value, options, allowed))


def _rules(value: Callable[[str], Any]) -> TokenRules:
    skew_s = value("sasl.oauthbearer.clock.skew.seconds")
    if skew_s < 0:
        raise ConfigError("sasl.oauthbearer.clock.skew.seconds", str(skew_s), "must not be negative")
    return TokenRules(
        issuer=(value("sasl.oauthbearer.expected.issuer") or "").strip() or None,
        audiences=tuple(value("sasl.oauthbearer.expected.audience")),
        clock_skew_s=skew_s,
        scope_claim=_claim(value, "sasl.oauthbearer.scope.claim.name"),
        subject_claim=_claim(value, "sasl.oauthbearer.sub.claim.name"),
    )


def _claim(value: Callable[[str], Any], name: str) -> str:
    found: str = value(name).strip()
    if not found:
        raise ConfigError(name, None, "must not be blank")
    return found


def _keys(value: Callable[[str], Any], options: Mapping[str, str], allowed: Collection[str]) -> KeysSettings:
    url = (value(URL) or "").strip()
    if not url:
        reason = "must be set for OAUTHBEARER: signatures are checked with its keys"
        raise ConfigError(URL, None, reason)
    check_url(URL, url, allowed)
    times = {}
    for name in ("refresh.ms", "retry.backoff.ms", "retry.backoff.max.ms"):
        times[name.replace(".", "_")] = _positive(value, f"sasl.oauthbearer.jwks.endpoint.{name}")
    tls_options = {name: option for name, option in options.items() if name.startswith("ssl.")}
    return KeysSettings(url, **times, tls_options=tls_options)


def _positive(value: Callable[[str], Any], name: str) -> int:
    found: int = value(name)
    if found < 1:
        raise ConfigError(name, str(found), "must be at least 1")
    return found


def checked_token_file(url: str, allowed: Collection[str] | None) -> str:
    """The URL of the file with a client's own token. ``allowed`` None: any file. `ConfigError`."""
    url = url.strip()
    check_url(TOKEN_URL, url, [url] if allowed is None else allowed)
    return url


def issuer_context(url: str, options: Mapping[str, str], files: ContextFiles) -> SSLContext | None:
    """How the certificate of an issuer's server is checked: with the trust store that the login module's options name,
    or the system's. None without TLS. Blocks on files; `ConfigError`."""
    if not url.startswith("https:"):
        return None
    from kwire.security.tls.contexts import client_context
    from kwire.security.tls.properties import tls_settings_of
    from kwire.security.tls.settings import TlsError

    try:
        return client_context(tls_settings_of(options), files)
    except TlsError as error:
        raise ConfigError(error.name, None, f"{error.reason} (option of OAUTHBEARER's login module)") from None


def check_url(name: str, url: str, allowed: Collection[str]) -> None:
    """Check that a URL is valid and allowed. `ConfigError`."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigError(name, None, "is not a URL") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(name, None, "must not have a user or a password")
    if parts.scheme not in SCHEMES or (parts.scheme == "file") == _has_host(parts) or not url.isprintable():
        raise ConfigError(name, url, "must be a URL with https, http or file")
    if url not in allowed:
        reason = f"is not one of {ALLOWED} (in Apache Kafka org.apache.kafka.sasl.oauthbearer.allowed.urls)"
        raise ConfigError(name, url, reason)


def _has_host(parts: SplitResult) -> bool:
    return parts.hostname is not None and not (parts.scheme == "file" and parts.hostname == "localhost")


def file_path(url: str) -> str | None:
    """The path of a ``file:`` URL; None for others."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else None
