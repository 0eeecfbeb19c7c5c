"""`KafkaConfig`: the values a broker runs with, static and dynamic, as typed attributes.

Built once from texts (`KafkaConfig.load`), changed afterwards only by `apply_dynamic`. Reading is one attribute
access: ``config.socket_request_max_bytes``; by Kafka's name: ``config["socket.request.max.bytes"]``. What a property
means, and which code uses it, is elsewhere; topics' values are in `topic_config.py`, DescribeConfigs' view in
`describe.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kwire.base.config.checks import check_values
from kwire.base.config.definitions import (
    BROKER_ROWS,
    LISTENER_PREFIX,
    STORE_PROPERTIES,
    broker_row,
    default_of,
    general_name,
    is_dynamic,
    is_sensitive,
    listener_property,
)
from kwire.base.config.errors import ConfigError
from kwire.base.config.listeners import Endpoint, check_ports, parse_endpoints, parse_protocol_map
from kwire.base.config.sources import environment_properties, parse_properties
from kwire.base.config.support import Support, support_of, why_refused
from kwire.base.config.topic_config import topic_defaults, topic_values
from kwire.base.config.typed import BrokerProperties
from kwire.base.config.values import HIDDEN, parse_value

ChangeCallback = Callable[[frozenset[str]], None]
Validator = Callable[[Mapping[str, Any]], None]

_AT_START: Final = ("ssl.", "sasl.")
"""What Kafka can change while a broker runs, and kwire only at its start, except the `STORE_PROPERTIES`."""

_ATTRIBUTES: Final[dict[str, str]] = {name: name.replace(".", "_") for name in BROKER_ROWS}


class KafkaConfig(BrokerProperties):
    """One broker's configuration.

    ``static``: the texts that were given (file, environment, command line), also unknown names. ``dynamic_default``
    and ``dynamic_broker``: the texts of IncrementalAlterConfigs for all brokers and for this one; the former always
    has `min.insync.replicas`, as in a Kafka cluster with eligible leader replicas (KIP-966). ``warnings`` and
    ``notes`` are lines that the broker logs when it starts.
    """

    kwire_balance_enable: bool
    kwire_balance_throttled_rate: int
    kwire_jaas_config_file: str | None
    kwire_metadata_dir: str | None
    kwire_sasl_oauthbearer_allowed_urls: tuple[str, ...]
    kwire_metrics_listen: str | None
    kwire_metrics_names: str
    kwire_metrics_otel_endpoint: str | None
    kwire_metrics_otel_interval_ms: int
    kwire_metrics_password: str | None
    kwire_metrics_ssl_certificate_location: str | None
    kwire_metrics_ssl_key_location: str | None
    kwire_metrics_topics: str | None
    kwire_metrics_username: str | None
    kwire_telemetry_otlp_endpoint: str | None
    kwire_test_control: bool
    kwire_test_supported_features: tuple[str, ...]
    kwire_validate_records: bool
    kwire_zookeeper_sasl_jaas_config: str | None
    zookeeper_connect: str | None
    zookeeper_connection_timeout_ms: int | None
    zookeeper_session_timeout_ms: int
    zookeeper_set_acl: bool
    zookeeper_ssl_client_enable: bool
    zookeeper_ssl_endpoint_identification_algorithm: str
    zookeeper_ssl_keystore_location: str | None
    zookeeper_ssl_keystore_password: str | None
    zookeeper_ssl_truststore_location: str | None

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, str] = dict(properties or {})
        self.dynamic_broker: dict[str, str] = {}
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._callbacks: list[ChangeCallback] = []
        self._validators: list[Validator] = []
        self._followers: list[Callable[[], None]] = []
        self._topic_defaults: dict[str, Any] | None = None
        self._check_support()
        self._values: dict[str, Any] = {name: default_of(name) for name in BROKER_ROWS}
        self._values.update(self._parse_all(self.static))
        _fill_broker_id(self._values, self.static)
        check_values(self._values)
        self.dynamic_default = self.dynamic_default_minimum()
        for name, attribute in _ATTRIBUTES.items():
            setattr(self, attribute, self._values[name])
        self._check_roles()
        self._check_listeners()

    @classmethod
    def load(
        cls,
        file_text: str | None = None,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> KafkaConfig:
        """Command line before environment before file before the defaults of kwire and of Kafka.

        Raises `ConfigError` with one line for a wrong value or a refused property.
        """
        properties = parse_properties(file_text) if file_text is not None else {}
        _override(properties, environment_properties(environment) if environment is not None else {})
        _override(properties, dict(overrides))
        return cls(properties)

    @property
    def values(self) -> Mapping[str, Any]:
        """All typed values by Kafka's names, also those of listeners."""
        return self._values

    def __getitem__(self, name: str) -> Any:
        """The typed value by Kafka's name. KeyError if Kafka has no such property."""
        return self._values[name]

    def get_for_listener(self, listener: str, name: str) -> Any:
        """The value of ``listener.name.<listener>.<name>``, or the general one if the listener has none."""
        prefixed = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
        return self._values.get(prefixed, self._values[name])

    def get_for_mechanism(self, listener: str, mechanism: str, name: str) -> Any:
        """The value of ``listener.name.<listener>.<mechanism>.<name>``, or None: the general one is not for it."""
        return self._values.get(f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{name}")

    # Derived from more than one property

    @property
    def data_dirs(self) -> tuple[str, ...]:
        """The directories that hold logs (`log.dirs`, else `log.dir`)."""
        return self.log_dirs if self.log_dirs else self.log_dir

    @property
    def is_clustered(self) -> bool:
        """Whether there may be other brokers: they share a metadata store."""
        return self.kwire_metadata_dir is not None or self.zookeeper_connect is not None

    @property
    def is_local_only(self) -> bool:
        """Whether the broker serves this machine only because `listeners` is not set."""
        return "listeners" not in self.static

    def endpoints(self) -> list[Endpoint]:
        """The listeners to open: those of `listeners`, without KRaft's controller listeners."""
        return self._endpoints("listeners", self.listeners)

    def advertised_endpoints(self) -> list[Endpoint]:
        """The endpoints of `advertised.listeners`. If it is not set, an empty list: clients then get the host that
        `listeners` names, or if it names none, the address that they connected to."""
        if self.advertised_listeners is None:
            return []
        advertised = self._endpoints("advertised.listeners", self.advertised_listeners)
        for endpoint in advertised:
            if endpoint.host in ("0.0.0.0", "::"):
                raise ConfigError("advertised.listeners", str(endpoint), "must name an address that clients can reach")
            if endpoint.listener not in {each.listener for each in self.endpoints()}:
                raise ConfigError("advertised.listeners", str(endpoint), "must be one of the listeners")
        return advertised

    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers use among themselves."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    def max_connections_per_ip_for(self) -> dict[str, int]:
        """`max.connections.per.ip.overrides` as a mapping from host name or address to limit."""
        pairs = (entry.strip().rpartition(":") for entry in self.max_connections_per_ip_overrides.split(",") if entry)
        return {host.strip(): int(limit) for host, _, limit in pairs}

    def topic_config(self, overrides: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Typed values of every topic property: the topic's own where it has one, else the broker's. Overrides that
        are not valid (any more) count as absent, as in Kafka at start-up: `topic_config.validate_topic` refuses them
        when they are set."""
        if self._topic_defaults is None:
            self._topic_defaults = topic_defaults(self._values)
            # Not a topic property, but the log is given nothing else.
            self._topic_defaults["kwire.validate.records"] = self.kwire_validate_records
        return topic_values(self._topic_defaults, overrides or {})

    # Dynamic values

    def on_change(self, callback: ChangeCallback) -> None:
        """Have a function called with the names that changed, after every change."""
        self._callbacks.append(callback)

    def off_change(self, callback: ChangeCallback) -> None:
        """Undo `on_change`."""
        self._callbacks.remove(callback)

    def on_validate(self, validator: Validator) -> None:
        """Have a function called by `try_dynamic` with all typed values; it may raise `ConfigError`."""
        self._validators.append(validator)

    def on_apply(self, follower: Callable[[], None]) -> None:
        """Have a function called after dynamic values were set, also to what they were before."""
        self._followers.append(follower)

    def dynamic_default_minimum(self) -> dict[str, str]:
        """The properties that always have a cluster-wide value, which is this broker's own until it is changed."""
        return {"min.insync.replicas": self.static.get("min.insync.replicas", "1")}

    def apply_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> list[str]:
        """Run with these dynamic texts for all brokers and for this one; they replace those given before.

        Texts that are not valid are left out; the returned lines name them. Calls the change callbacks.
        """
        problems: list[str] = []
        accepted_default = {**self.dynamic_default_minimum(), **self._acceptable(default, problems)}
        accepted_broker = self._acceptable(broker, problems)
        values = self._effective_values(accepted_default, accepted_broker)
        self.dynamic_default, self.dynamic_broker = accepted_default, accepted_broker
        changed = frozenset(name for name in values.keys() | self._values.keys() if self._differs(name, values))
        self._values = values
        for name in changed & _ATTRIBUTES.keys():
            setattr(self, _ATTRIBUTES[name], values[name])
        self._topic_defaults = None
        for callback in list(self._callbacks) if changed else ():
            callback(changed)
        for follower in list(self._followers):
            follower()
        return problems

    def validate_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Whether these dynamic texts may be stored: `ConfigError` for the first one that may not."""
        for name, text in [*default.items(), *broker.items()]:
            _check_dynamic(name, text)
        check_values(self._effective_values(default, broker))

    def try_dynamic(self, broker: Mapping[str, str]) -> None:
        """Have the functions of `on_validate` try dynamic texts for this broker. `ConfigError`."""
        values = self._effective_values(self.dynamic_default, self._acceptable(broker, []))
        for validator in self._validators:
            validator(values)

    def _effective_values(self, default: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, Any]:
        values: dict[str, Any] = {name: default_of(name) for name in BROKER_ROWS}
        values.update(self._parse_all({**self.static, **default, **broker}))
        _fill_broker_id(values, self.static)
        return values

    def _differs(self, name: str, values: dict[str, Any]) -> bool:
        return bool(values.get(name) != self._values.get(name))

    @staticmethod
    def _acceptable(texts: Mapping[str, str], problems: list[str]) -> dict[str, str]:
        accepted = {}
        for name, text in texts.items():
            try:
                _check_dynamic(name, text)
            except ConfigError as error:
                problems.append(f"ignored dynamic value {error}")
            else:
                accepted[name] = text
        return accepted

    # Reading what was given

    @staticmethod
    def _parse_all(texts: Mapping[str, str]) -> dict[str, Any]:
        values = {}
        for name, text in texts.items():
            row = broker_row(name)
            if row is not None:
                values[name] = parse_value(row, text, name)
                _refuse_unsupported(name, text, values[name])
        return values

    def _check_support(self) -> None:
        by_state: dict[Support, list[str]] = {}
        for name in self.static:
            by_state.setdefault(support_of(name), []).append(name)
        unknown = by_state.get(Support.UNKNOWN, [])
        if "zookeeper.connect" in self.static:
            for name in unknown:
                if name.startswith("zookeeper."):
                    raise ConfigError(name, HIDDEN, "is not supported by kwire")
        if unknown:
            self.warnings.append(
                "properties that Kafka does not know: " + ", ".join(map(_with_nearest, sorted(unknown)))
            )
        if kraft := by_state.get(Support.KRAFT_ONLY):
            self.notes.append("KRaft properties without a meaning here: " + ", ".join(sorted(kraft)))

    def _check_roles(self) -> None:
        if "broker" not in self.process_roles:
            raise ConfigError("process.roles", ",".join(self.process_roles), "must have broker: kwire is one")

    def check_can_serve(self) -> None:
        """ConfigError for what stops a broker, but not a command that only opens the metadata store."""
        if self.is_local_only and self.zookeeper_connect is not None:
            reason = "must be set with zookeeper.connect: brokers on other hosts cannot reach the default"
            raise ConfigError("listeners", None, reason)

    def _check_listeners(self) -> None:
        reachable = self.advertised_endpoints() or self.endpoints()
        self._warn_of_ignored()
        self._check_inter_broker_mechanism()
        name = self.inter_broker_listener_name
        if name is None:
            if self.is_clustered:
                self._check_inter_broker_protocol(reachable)
            return
        if "security.inter.broker.protocol" in self.static:
            raise ConfigError(
                "inter.broker.listener.name", name, "must not be set beside security.inter.broker.protocol"
            )
        if name.upper() not in {endpoint.listener for endpoint in reachable}:
            raise ConfigError("inter.broker.listener.name", name, "must be one of the listeners")

    def _check_inter_broker_protocol(self, reachable: list[Endpoint]) -> None:
        """A listener for brokers must not be guessed where listeners differ in their protocols, or from the one that is
        wanted."""
        named = {endpoint.listener for endpoint in reachable}
        protocols = {self.security_inter_broker_protocol, *(each.security_protocol for each in reachable)}
        if self.inter_broker_listener() in named or protocols == {"PLAINTEXT"}:
            return
        raise ConfigError(
            "security.inter.broker.protocol", self.security_inter_broker_protocol, "must be the name of a listener"
        )

    def _warn_of_ignored(self) -> None:
        """Properties under the prefix of a listener that does not exist do nothing, as in Kafka, and neither does a
        login module without a listener and a mechanism. Nobody who writes one expects that."""
        listeners = {each.listener.lower() for each in self.endpoints()} | {
            each.lower() for each in self.controller_listener_names
        }
        ignored = []
        for name in self.static:
            found = listener_property(name)
            is_login = name == "sasl.jaas.config" or (found is not None and found.name == "sasl.jaas.config")
            if found is not None and found.listener not in listeners:
                ignored.append(f"{name} (no such listener, in lower case)")
            elif is_login and (found is None or not found.mechanism):
                ignored.append(f"{name} (needs the prefix listener.name.LISTENER.MECHANISM.)")
        if ignored:
            self.warnings.append("properties without effect: " + ", ".join(sorted(ignored)))

    def _check_inter_broker_mechanism(self) -> None:
        listener, mechanism = self.inter_broker_listener(), self.sasl_mechanism_inter_broker_protocol
        protocols = {endpoint.listener: endpoint.security_protocol for endpoint in self.endpoints()}
        if not protocols.get(listener, "").startswith("SASL"):
            return
        if mechanism not in self.get_for_listener(listener, "sasl.enabled.mechanisms"):
            reason = f"must be one of sasl.enabled.mechanisms of listener {listener}, which brokers use"
            raise ConfigError("sasl.mechanism.inter.broker.protocol", mechanism, reason)

    def _endpoints(self, name: str, texts: tuple[str, ...]) -> list[Endpoint]:
        controllers = {listener.upper() for listener in self.controller_listener_names}
        protocols = parse_protocol_map("listener.security.protocol.map", self.listener_security_protocol_map)
        for listener in controllers:
            protocols.setdefault(listener, "PLAINTEXT")
        endpoints = [each for each in parse_endpoints(name, texts, protocols) if each.listener not in controllers]
        if not endpoints:
            raise ConfigError(name, ",".join(texts), "must have a listener for clients")
        if name == "listeners":
            check_ports(name, endpoints)
        return endpoints


def _with_nearest(name: str) -> str:
    """An unknown name, with the property that was probably meant."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, BROKER_ROWS, n=1, cutoff=0.8)
    return f"{name} (is {nearest[0]} meant?)" if nearest else name


def _override(properties: dict[str, str], stronger: Mapping[str, str]) -> None:
    """Stronger sources win over weaker ones also under another name of the same identity."""
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in stronger and other not in stronger:
            properties.pop(other, None)
    properties.update(stronger)


def _fill_broker_id(values: dict[str, Any], given: dict[str, str]) -> None:
    """`node.id` and `broker.id` are one number under two names; -1 for `broker.id` means that it is not given."""
    if "node.id" in given:
        if "broker.id" in given and values["broker.id"] not in (-1, values["node.id"]):
            raise ConfigError("broker.id", str(values["broker.id"]), f"must equal node.id={values['node.id']}")
        values["broker.id"] = values["node.id"]
        given["broker.id"] = given["node.id"]
    elif "broker.id" in given:
        if values["broker.id"] < 0:
            raise ConfigError("broker.id", str(values["broker.id"]), "must be at least 0")
        values["node.id"] = values["broker.id"]
        given["node.id"] = given["broker.id"]


def _refuse_unsupported(name: str, text: str, value: Any) -> None:
    if (reason := why_refused(name, value)) is not None:
        raise ConfigError(name, HIDDEN if is_sensitive(name) else text, reason)


def _check_dynamic(name: str, text: str) -> None:
    row = broker_row(name)
    if row is None:
        return  # Kafka stores unknown names
    if not is_dynamic(name):
        raise ConfigError(name, HIDDEN if is_sensitive(name) else text, "cannot be changed while the broker runs")
    general = general_name(name)
    fixed = general.startswith(_AT_START) and general not in STORE_PROPERTIES
    if fixed and row[4] == "per-broker" and support_of(name) is Support.SUPPORTED:
        raise ConfigError(name, HIDDEN, "cannot be changed while a kwire broker runs")
    _refuse_unsupported(name, text, parse_value(row, text, name))
