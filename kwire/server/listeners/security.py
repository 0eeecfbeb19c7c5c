"""The security of a broker's listeners, from its configuration: TLS, SASL mechanisms with their logins, principals.

Everything is read and checked before the broker starts; an error is one line with the property's name and without
passwords. A broker whose listeners are all PLAINTEXT does not import this module.

A JAAS login belongs to one listener and one mechanism, as in Kafka: ``listener.name.NAME.MECHANISM.sasl.jaas.config``,
or in the file of `kwire.jaas.config.file` the context ``name.KafkaServer``, or else ``KafkaServer``. What lives
elsewhere: clients' properties (`kwire.security.client`), the login of a connection (`kwire.server.authentication`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kwire.base.config import ConfigError
from kwire.base.config.definitions import LISTENER_PREFIX
from kwire.security.client import (
    GSSAPI,
    LOGIN_MODULES,
    OAUTHBEARER,
    PLAIN,
    ClientSecurity,
    login_module,
    why_no_login,
    with_token,
)
from kwire.security.tls.properties import tls_settings

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from kwire.base.config import Endpoint, KafkaConfig
    from kwire.base.doors import Doors, Files
    from kwire.security.names.jaas import LoginModule
    from kwire.security.oauth.settings import SignedSettings
    from kwire.security.oauth.tokens import TokenCheck
    from kwire.security.oauth.unsecured import UnsecuredRules
    from kwire.security.tls.settings import TlsSettings

_FILE: Final = "kwire.jaas.config.file"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_HANDLERS: Final = ("sasl.server.callback.handler.class", "sasl.login.callback.handler.class")


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. ``tls``: for SSL and SASL_SSL. ``mechanisms``: for SASL_*, the enabled ones.
    ``logins``: the login modules by mechanism, if configured. ``tokens``: for OAUTHBEARER."""

    endpoint: Endpoint
    tls: TlsSettings | None
    mechanisms: tuple[str, ...]
    logins: Mapping[str, LoginModule]
    tokens: SignedSettings | UnsecuredRules | None = None


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The security of all listeners, by name, and that of this broker's connections to other brokers. ``checks``: how
    listeners with OAUTHBEARER check tokens."""

    listeners: Mapping[str, ListenerSecurity]
    inter_broker: ClientSecurity
    checks: Mapping[str, TokenCheck] = field(default_factory=dict)

    @property
    def has_scram(self) -> bool:
        """Whether clients can log in with SCRAM."""
        return any(mechanism.startswith("SCRAM") for each in self.listeners.values() for mechanism in each.mechanisms)

    @classmethod
    def load(cls, config: KafkaConfig, files: Files) -> BrokerSecurity:
        """Read the configuration, and the JAAS file if there is one. `ConfigError`."""
        contexts = _jaas_file(config.kwire_jaas_config_file, files)
        listeners = {each.listener: _listener(config, each, contexts) for each in config.endpoints()}
        return cls(listeners, _inter_broker(config, listeners))

    async def ready(self, doors: Doors, stack: AsyncExitStack) -> BrokerSecurity:
        """The same, with the keys that must be fetched before clients can log in; they are refreshed until the stack is
        closed. `StartError`, `ConfigError`."""
        tokens = {name: each.tokens for name, each in self.listeners.items() if each.tokens is not None}
        if not tokens:
            return self
        from kwire.server.oauth.checks import token_checks

        return replace(self, checks=await token_checks(doors, tokens, stack))


def _listener(config: KafkaConfig, endpoint: Endpoint, contexts: Mapping[str, list[LoginModule]]) -> ListenerSecurity:
    name, protocol = endpoint.listener, endpoint.security_protocol
    tls = listener_tls_settings(config.values, endpoint) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ListenerSecurity(endpoint, tls, (), {})
    mechanisms: tuple[str, ...] = config.get_for_listener(name, _MECHANISMS)
    if not mechanisms or any(each not in LOGIN_MODULES for each in mechanisms):
        reason = f"must be a list of {', '.join(LOGIN_MODULES)} for listener {name}"
        raise ConfigError(_MECHANISMS, ",".join(mechanisms), reason)
    for each in mechanisms:
        _check_handlers(config, name, each)
    found = {each: _login(config, name, each, contexts) for each in mechanisms}
    logins = {mechanism: login for mechanism, login in found.items() if login is not None}
    if PLAIN in mechanisms and PLAIN not in logins:
        raise ConfigError(jaas_property(name, PLAIN), None, "must be set: it has the users of PLAIN")
    if GSSAPI in mechanisms and GSSAPI not in logins:
        reason = "must be set: it names the broker's keytab (GSSAPI is Kafka's default of sasl.enabled.mechanisms)"
        raise ConfigError(jaas_property(name, GSSAPI), None, reason)
    tokens = _tokens(config, name, logins.get(OAUTHBEARER)) if OAUTHBEARER in mechanisms else None
    return ListenerSecurity(endpoint, tls, mechanisms, logins, tokens)


def _check_handlers(config: KafkaConfig, listener: str, mechanism: str) -> None:
    """Refuse the callback handlers of OAUTHBEARER for another mechanism: nothing would check what they should."""
    for name in _HANDLERS:
        handler: str | None = config.get_for_mechanism(listener, mechanism, name)
        if mechanism != OAUTHBEARER and handler is not None and ".oauthbearer." in handler:
            full = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{name}"
            raise ConfigError(full, handler, f"is for OAUTHBEARER, not for {mechanism}")


def _tokens(config: KafkaConfig, listener: str, login: LoginModule | None) -> SignedSettings | UnsecuredRules:
    """How a listener checks tokens. As in Kafka, only a callback handler of the mechanism counts."""
    from kwire.security.oauth.settings import HANDLER, token_settings

    handler = config.get_for_mechanism(listener, OAUTHBEARER, HANDLER)
    options = login.options if login is not None else {}
    allowed = config.kwire_sasl_oauthbearer_allowed_urls
    return token_settings(lambda name: mechanism_value(config, listener, OAUTHBEARER, name), handler, options, allowed)


def mechanism_value(config: KafkaConfig, listener: str, mechanism: str, name: str) -> Any:
    """The value of a property: for the mechanism, for the listener, or for all."""
    own = config.get_for_mechanism(listener, mechanism, name)
    return config.get_for_listener(listener, name) if own is None else own


def listener_tls_settings(values: Mapping[str, Any], endpoint: Endpoint) -> TlsSettings:
    """The TLS settings of a listener in typed values: its own, else the general ones."""
    prefix = f"{LISTENER_PREFIX}{endpoint.listener.lower()}."

    def value(name: str) -> Any:
        if name == "ssl.client.auth" and endpoint.security_protocol == "SASL_SSL":
            return values.get(prefix + name, "none")  # beside SASL only if the listener itself says so (KIP-684)
        return values.get(prefix + name, values[name])

    return tls_settings(value)


def jaas_property(listener: str, mechanism: str) -> str:
    """The property with the login module of a mechanism on a listener."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _login(
    config: KafkaConfig, listener: str, mechanism: str, contexts: Mapping[str, list[LoginModule]]
) -> LoginModule | None:
    text = config.get_for_mechanism(listener, mechanism, "sasl.jaas.config")
    if text is not None:
        return login_module(jaas_property(listener, mechanism), text, mechanism)
    modules = contexts.get(f"{listener.lower()}.KafkaServer") or contexts.get("KafkaServer", [])
    for each in modules:
        if each.name not in LOGIN_MODULES.values():
            raise ConfigError(_FILE, config.kwire_jaas_config_file, f"{each.name} is not supported by kwire")
    return next((each for each in modules if each.name == LOGIN_MODULES[mechanism]), None)


def _jaas_file(path: str | None, files: Files) -> dict[str, list[LoginModule]]:
    if path is None:
        return {}
    from kwire.security.names.jaas import parse_jaas_file

    try:
        return parse_jaas_file(files.read(path).decode())
    except (OSError, ValueError) as error:
        raise ConfigError(_FILE, path, str(getattr(error, "strerror", None) or error)) from None


def _inter_broker(config: KafkaConfig, listeners: Mapping[str, ListenerSecurity]) -> ClientSecurity:
    """How this broker connects to others: as a client of the listener for brokers, with that listener's settings."""
    own = listeners.get(config.inter_broker_listener())
    if own is None:
        return ClientSecurity()
    protocol = own.endpoint.security_protocol
    if not protocol.startswith("SASL"):
        return ClientSecurity(protocol, own.tls)
    mechanism = config.sasl_mechanism_inter_broker_protocol
    name = own.endpoint.listener
    service: str | None = config.get_for_listener(name, "sasl.kerberos.service.name")
    found = ClientSecurity(protocol, own.tls, mechanism, own.logins.get(mechanism), service=service)
    if mechanism == OAUTHBEARER:
        found = _with_token(config, name, found)
    if config.is_clustered and (reason := why_no_login(found)) is not None:
        raise ConfigError(jaas_property(name, mechanism), None, f"{reason}: brokers log in by {mechanism}")
    return found


def _with_token(config: KafkaConfig, listener: str, security: ClientSecurity) -> ClientSecurity:
    """The same with the source of this broker's own OAuth token."""
    from kwire.security.oauth.client import RefreshRules

    def value(name: str) -> Any:
        if name == "sasl.oauthbearer.header.urlencode":  # only clients have it
            return False
        return mechanism_value(config, listener, OAUTHBEARER, name)

    def refresh() -> RefreshRules:
        names = ("window.factor", "window.jitter", "min.period.seconds", "buffer.seconds")
        return RefreshRules(*(value(f"sasl.login.refresh.{name}") for name in names))

    return with_token(security, value, config.kwire_sasl_oauthbearer_allowed_urls, refresh)
