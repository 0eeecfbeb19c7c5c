"""The client's side of a secured connection, from Kafka's client properties: ``security.protocol``, ``ssl.*``,
``sasl.mechanism``, ``sasl.jaas.config``.

A login is a sequence of requests and responses (`login_requests`), which the caller sends and receives over whatever
connection it has. What lives elsewhere: the mechanisms (`kwire.security.sasl`), TLS contexts (`kwire.security.tls`),
connections (`kwire.cluster.connector`, `kwire.testing.blocking_client`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.config import ConfigError
from kwire.base.config.definitions import BROKER_ROWS
from kwire.base.config.listeners import SECURITY_PROTOCOLS
from kwire.base.config.values import HIDDEN, parse_value
from kwire.base.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.codec.message import Message
    from kwire.security.names.jaas import LoginModule
    from kwire.security.sasl.mechanism import ClientExchange
    from kwire.security.scram_credentials import RandomBytes
    from kwire.security.tls.settings import TlsSettings

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2

_PACKAGE: Final = "org.apache.kafka.common.security."
LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}scram.ScramLoginModule",
}
"""The login module of each mechanism, by the name of its class in Kafka."""


class ClientSecurity(NamedTuple):
    """How a client secures its connections: ``tls`` for SSL and SASL_SSL, ``mechanism`` and ``login`` for SASL_*."""

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    mechanism: str = ""
    login: LoginModule | None = None


PLAINTEXT: Final = ClientSecurity()


def client_security(texts: Mapping[str, str]) -> ClientSecurity:
    """Read Kafka's client properties; others are ignored. `ConfigError`."""
    protocol = texts.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError("security.protocol", protocol, f"must be one of {', '.join(SECURITY_PROTOCOLS)}")
    tls = tls_settings(lambda name: _value(texts, name)) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ClientSecurity(protocol, tls)
    mechanism = texts.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in LOGIN_MODULES:
        raise ConfigError("sasl.mechanism", mechanism, f"is not supported by kwire: only {', '.join(LOGIN_MODULES)}")
    if "sasl.jaas.config" not in texts:
        raise ConfigError("sasl.jaas.config", None, f"must be set for {protocol}")
    login = login_module("sasl.jaas.config", texts["sasl.jaas.config"], mechanism)
    if not {"username", "password"} <= login.options.keys():
        raise ConfigError("sasl.jaas.config", HIDDEN, "must have username and password")
    return ClientSecurity(protocol, tls, mechanism, login)


def _value(texts: Mapping[str, str], name: str) -> Any:
    row = BROKER_ROWS[name]
    return parse_value(row, texts[name]) if name in texts else row[2]


def tls_settings(value: Callable[[str], Any]) -> TlsSettings:
    """The settings of TLS, from a function that gives the value of a property (``ssl.keystore.location``)."""
    from kwire.security.tls.settings import TlsSettings

    return TlsSettings(**{each.name: value(f"ssl.{each.name.replace('_', '.')}") for each in fields(TlsSettings)})


def login_module(name: str, text: str, mechanism: str) -> LoginModule:
    """The login module of a ``sasl.jaas.config``, which must be the mechanism's. `ConfigError`, without the text."""
    from kwire.security.names.jaas import only_module

    try:
        module = only_module(text)
    except ValueError as error:
        raise ConfigError(name, HIDDEN, str(error)) from None
    check_login_module(name, module, mechanism)
    return module


def check_login_module(name: str, module: LoginModule, mechanism: str) -> None:
    """Whether a login module is that of a mechanism. `ConfigError`."""
    if module.name != LOGIN_MODULES[mechanism]:
        raise ConfigError(
            name, HIDDEN, f"{module.name} is not supported by kwire: {mechanism} has {LOGIN_MODULES[mechanism]}"
        )


def client_exchange(security: ClientSecurity, random_bytes: RandomBytes) -> ClientExchange:
    """A new login by the mechanism of these settings."""
    options = security.login.options if security.login is not None else {}
    user, password = options.get("username", ""), options.get("password", "")
    if security.mechanism == "PLAIN":
        from kwire.security.sasl.plain import ClientPlain

        return ClientPlain(user, password)
    from kwire.security.sasl.scram import ClientScram
    from kwire.security.scram_credentials import MECHANISMS

    by_token = options.get("tokenauth", "").lower() == "true"
    return ClientScram(MECHANISMS[security.mechanism], user, password, random_bytes, by_token)


def login_requests(mechanism: str, exchange: ClientExchange) -> Generator[tuple[Message, int], Any, int]:
    """The requests of a login with their versions, one after the other; each must be sent the response to it. Returns
    the lifetime of the session in milliseconds, 0 for no limit (KIP-368). `AuthenticationError`."""
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
