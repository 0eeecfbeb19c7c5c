"""The client's side of a secured connection, from Kafka's client properties: ``security.protocol``, ``ssl.*``,
``sasl.mechanism``, ``sasl.jaas.config``.

A login is a sequence of requests and responses (`login_requests`), which the caller sends and receives over whatever
connection it has. What lives elsewhere: the mechanisms (`kwire.security.sasl`), TLS contexts (`kwire.security.tls`),
connections (`kwire.cluster.connector`, `kwire.testing.blocking_client`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.config import ConfigError
from kwire.base.config.definitions import BROKER_ROWS
from kwire.base.config.listeners import SECURITY_PROTOCOLS
from kwire.base.config.values import HIDDEN
from kwire.base.errors import ErrorCode
from kwire.security.tls.properties import tls_settings_of, typed_value

if TYPE_CHECKING:
    from kwire.base.doors import Doors
    from kwire.codec.message import Message
    from kwire.security.names.jaas import LoginModule
    from kwire.security.oauth.client import RefreshRules, TokenClient
    from kwire.security.sasl.mechanism import ClientExchange
    from kwire.security.tls.settings import TlsSettings

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2

_PACKAGE: Final = "org.apache.kafka.common.security."
PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
LOGIN_MODULES: Final = {
    PLAIN: f"{_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}scram.ScramLoginModule",
    OAUTHBEARER: f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
"""The login module of each mechanism, by the name of its class in Kafka or Java."""


_CLIENT_ROWS: Final = {
    "sasl.oauthbearer.header.urlencode": (
        "sasl.oauthbearer.header.urlencode",
        "BOOLEAN",
        False,
        "LOW",
        "read-only",
        None,
    )
}
"""Properties that only clients have, in Kafka too."""


class ClientSecurity(NamedTuple):
    """How a client secures its connections: ``tls`` for SSL and SASL_SSL, ``mechanism`` and ``login`` for SASL_*.
    For OAUTHBEARER ``token_url`` names the file with the token, and ``token_client`` says how an issuer gives one;
    without both, the login module's options define an unsecured token. ``service``: `sasl.kerberos.service.name`, for
    GSSAPI."""

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    mechanism: str = ""
    login: LoginModule | None = None
    token_url: str | None = None
    token_client: TokenClient | None = None
    service: str | None = None


PLAINTEXT: Final = ClientSecurity()


def client_security(texts: Mapping[str, str]) -> ClientSecurity:
    """Read Kafka's client properties; others are ignored. `ConfigError`."""
    protocol = texts.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError("security.protocol", protocol, f"must be one of {', '.join(SECURITY_PROTOCOLS)}")
    tls = tls_settings_of(texts) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ClientSecurity(protocol, tls)
    mechanism = texts.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in LOGIN_MODULES:
        raise ConfigError("sasl.mechanism", mechanism, f"is not supported by kwire: only {', '.join(LOGIN_MODULES)}")
    if "sasl.jaas.config" not in texts:
        raise ConfigError("sasl.jaas.config", None, f"must be set for {protocol}")
    if "sasl.mechanism" not in texts and LOGIN_MODULES[GSSAPI] not in texts["sasl.jaas.config"]:
        raise ConfigError("sasl.mechanism", None, "must be set for this login module: the default is GSSAPI")
    login = login_module("sasl.jaas.config", texts["sasl.jaas.config"], mechanism)
    service = texts.get("sasl.kerberos.service.name")
    found = ClientSecurity(protocol, tls, mechanism, login, service=service)
    if mechanism == OAUTHBEARER:
        found = with_token(found, lambda name: _value(texts, name), allowed=None)
    if (reason := why_no_login(found)) is not None:
        raise ConfigError("sasl.jaas.config", HIDDEN, reason)
    return found


def with_token(
    security: ClientSecurity,
    value: Callable[[str], Any],
    allowed: Collection[str] | None,
    refresh: Callable[[], RefreshRules] | None = None,
) -> ClientSecurity:
    """The same with the source of its OAuth token. ``value`` gives the typed value of a property; ``allowed``: the URLs
    that may be used, None for all. `ConfigError`."""
    from kwire.security.oauth.client import RefreshRules, token_client
    from kwire.security.oauth.settings import TOKEN_URL, checked_token_file

    options = security.login.options if security.login is not None else {}
    client = token_client(value, options, allowed, refresh or RefreshRules)
    if client is not None:
        return security._replace(token_client=client)
    url: str | None = value(TOKEN_URL)
    return security if not url else security._replace(token_url=checked_token_file(url, allowed))


def why_no_login(security: ClientSecurity) -> str | None:
    """What is missing for a login; None if nothing is."""
    options = security.login.options if security.login is not None else {}
    if security.mechanism == GSSAPI:
        return _why_no_ticket(options, security.service)
    if security.mechanism != OAUTHBEARER:
        return None if {"username", "password"} <= options.keys() else "must have username and password"
    if security.token_url is not None or security.token_client is not None:
        return None
    from kwire.security.oauth.unsecured import unsecured_token

    try:
        unsecured_token(options, 0)
    except ValueError as error:
        return f"{error}, or sasl.oauthbearer.token.endpoint.url"
    return None


def _why_no_ticket(options: Mapping[str, str], service: str | None) -> str | None:
    from kwire.security.kerberos import import_gssapi, kerberos_login

    try:
        kerberos_login(options, service)
        import_gssapi()
    except ValueError as error:
        return str(error)
    return None


def _value(texts: Mapping[str, str], name: str) -> Any:
    return typed_value(texts, _CLIENT_ROWS[name] if name in _CLIENT_ROWS else BROKER_ROWS[name])


def login_module(name: str, text: str, mechanism: str) -> LoginModule:
    """The login module of a ``sasl.jaas.config``, which must be the mechanism's. `ConfigError`, which does not contain
    the text."""
    from kwire.security.names.jaas import only_module

    try:
        module = only_module(text)
    except ValueError as error:
        raise ConfigError(name, HIDDEN, str(error)) from None
    check_login_module(name, module, mechanism)
    return module


def check_login_module(name: str, module: LoginModule, mechanism: str) -> None:
    """Check that a login module is that of a mechanism. `ConfigError`."""
    if module.name != LOGIN_MODULES[mechanism]:
        raise ConfigError(
            name, HIDDEN, f"{module.name} is not supported by kwire: {mechanism} has {LOGIN_MODULES[mechanism]}"
        )


def client_exchange(security: ClientSecurity, doors: Doors, host: str, token: str | None = None) -> ClientExchange:
    """A new login at a broker by the mechanism of these settings. ``token``: the OAuth token, if an issuer gives it
    (`ClientSecurity.token_client`) and the caller has it; otherwise this waits for the issuer. `AuthenticationError`.
    With GSSAPI, this function and the methods of the exchange may wait for the key distribution centre."""
    options = security.login.options if security.login is not None else {}
    if security.mechanism == GSSAPI:
        return _gssapi(options, security.service, host)
    if security.mechanism == OAUTHBEARER:
        if security.token_client is not None and token is None:
            from kwire.security.oauth.client import retrieve

            token = retrieve(security.token_client, doors).token
        return _oauthbearer(token, security.token_url, options, doors)
    user, password = options.get("username", ""), options.get("password", "")
    if security.mechanism == PLAIN:
        from kwire.security.sasl.plain import ClientPlain

        return ClientPlain(user, password)
    from kwire.security.sasl.scram import ClientScram
    from kwire.security.scram_credentials import MECHANISMS

    by_token = options.get("tokenauth", "").lower() == "true"
    return ClientScram(MECHANISMS[security.mechanism], user, password, doors.random.randbytes, by_token)


def _gssapi(options: Mapping[str, str], service: str | None, host: str) -> ClientExchange:
    from kwire.security.errors import AuthenticationError
    from kwire.security.kerberos import Initiator, kerberos_login
    from kwire.security.sasl.gssapi import ClientGssapi, GssError

    try:
        return ClientGssapi(Initiator(kerberos_login(options, service)).context(host))
    except GssError as error:
        raise AuthenticationError(f"Kerberos: {error}") from None


def _oauthbearer(token: str | None, token_url: str | None, options: Mapping[str, str], doors: Doors) -> ClientExchange:
    """A login with a token, with the one in a file, which is read for each login, or with an unsecured token."""
    from kwire.security.errors import AuthenticationError
    from kwire.security.oauth.settings import file_path
    from kwire.security.oauth.unsecured import EXTENSION, extensions, unsecured_token
    from kwire.security.sasl.oauthbearer import ClientOAuthBearer

    try:
        if token is not None:
            return ClientOAuthBearer(token, extensions(options, "extension_"))
        if token_url is None:
            return ClientOAuthBearer(unsecured_token(options, doors.clock.time_ms()), extensions(options, EXTENSION))
        path = file_path(token_url)
        assert path is not None  # checked_token_url
        return ClientOAuthBearer(doors.files.read(path).decode("ascii").strip(), extensions(options, "extension_"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or (error if token_url is None else "no token")
        raise AuthenticationError(f"the token cannot be read: {reason}") from None


def login_requests(mechanism: str, exchange: ClientExchange) -> Generator[tuple[Message, int], Any, int]:
    """Yields the requests of a login with their versions; the caller sends the response to each one back into the
    generator. Returns the lifetime of the session in milliseconds, 0 for no limit (KIP-368). `AuthenticationError`."""
    from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
    from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
    from kwire.security.errors import AuthenticationError

    response = yield SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION
    if response.error_code:
        raise AuthenticationError(f"the broker has no mechanism {mechanism}, only {', '.join(response.mechanisms)}")
    token = exchange.first()
    while True:
        response = yield SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION
        if response.error_code:
            raise AuthenticationError(response.error_message or ErrorCode(response.error_code).name)
        token = exchange.respond(response.auth_bytes)
        if exchange.complete:
            lifetime_ms: int = response.session_lifetime_ms
            return lifetime_ms
