"""The security of a broker's listeners, from its configuration: TLS, SASL mechanisms with their logins, principals.

Everything is read and checked before the broker starts; what is wrong is one line with the property's name and never a
password. A broker whose listeners are all PLAINTEXT does not even import this.

A JAAS login belongs to one listener and one mechanism, as in Kafka: ``listener.name.NAME.MECHANISM.sasl.jaas.config``,
or in the file of `kwire.jaas.config.file` the context ``name.KafkaServer``, or else ``KafkaServer``. What lives
elsewhere: clients' properties (`kwire.security.client`), the login of a connection (`kwire.server.authentication`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kwire.base.config import ConfigError
from kwire.base.config.definitions import LISTENER_PREFIX
from kwire.security.client import LOGIN_MODULES, ClientSecurity, login_module, tls_settings

if TYPE_CHECKING:
    from kwire.base.config import Endpoint, KafkaConfig
    from kwire.base.doors import Files
    from kwire.security.names.jaas import LoginModule
    from kwire.security.tls.settings import TlsSettings

PLAIN: Final = "PLAIN"
_FILE: Final = "kwire.jaas.config.file"
_MECHANISMS: Final = "sasl.enabled.mechanisms"


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """What the clients of one listener have to do. ``tls``: for SSL and SASL_SSL. ``mechanisms``: for SASL_*, of
    which clients choose. ``logins``: by mechanism, where there is one."""

    endpoint: Endpoint
    tls: TlsSettings | None
    mechanisms: tuple[str, ...]
    logins: Mapping[str, LoginModule]


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The security of all listeners, by name, and that of this broker's connections to other brokers."""

    listeners: Mapping[str, ListenerSecurity]
    inter_broker: ClientSecurity

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


def _listener(config: KafkaConfig, endpoint: Endpoint, contexts: Mapping[str, list[LoginModule]]) -> ListenerSecurity:
    name, protocol = endpoint.listener, endpoint.security_protocol
    tls = listener_tls_settings(config.values, endpoint) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ListenerSecurity(endpoint, tls, (), {})
    mechanisms: tuple[str, ...] = config.get_for_listener(name, _MECHANISMS)
    if not mechanisms or any(each not in LOGIN_MODULES for each in mechanisms):
        reason = f"must be a list of {', '.join(LOGIN_MODULES)} for listener {name}"
        raise ConfigError(_MECHANISMS, ",".join(mechanisms), reason)
    found = {each: _login(config, name, each, contexts) for each in mechanisms}
    logins = {mechanism: login for mechanism, login in found.items() if login is not None}
    if PLAIN in mechanisms and PLAIN not in logins:
        raise ConfigError(_jaas_property(name, PLAIN), None, "must be set: it has the users of PLAIN")
    return ListenerSecurity(endpoint, tls, mechanisms, logins)


def listener_tls_settings(values: Mapping[str, Any], endpoint: Endpoint) -> TlsSettings:
    """The TLS settings of a listener in typed values: its own, else the general ones."""
    prefix = f"{LISTENER_PREFIX}{endpoint.listener.lower()}."

    def value(name: str) -> Any:
        if name == "ssl.client.auth" and endpoint.security_protocol == "SASL_SSL":
            return values.get(prefix + name, "none")  # beside SASL only if the listener itself says so (KIP-684)
        return values.get(prefix + name, values[name])

    return tls_settings(value)


def _jaas_property(listener: str, mechanism: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _login(
    config: KafkaConfig, listener: str, mechanism: str, contexts: Mapping[str, list[LoginModule]]
) -> LoginModule | None:
    text = config.get_for_mechanism(listener, mechanism, "sasl.jaas.config")
    if text is not None:
        return login_module(_jaas_property(listener, mechanism), text, mechanism)
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
    login = own.logins.get(mechanism)
    if config.is_clustered and (login is None or "username" not in login.options):
        reason = f"must have the username and password with which brokers log in by {mechanism}"
        raise ConfigError(_jaas_property(own.endpoint.listener, mechanism), None, reason)
    return ClientSecurity(protocol, own.tls, mechanism, login)
