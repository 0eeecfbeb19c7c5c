"""What may be set by request for topics, brokers, groups and client metrics: the rules of AlterConfigs and
IncrementalAlterConfigs, and of CreateTopics' configs.

`ResourceValidator` judges the whole set of properties that a resource would have. Its errors are those of Kafka's
broker: a wrong value is INVALID_CONFIG for a topic or group, and INVALID_REQUEST for a broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kwire.base.config.definitions import BROKER_ROWS, TOPIC_ROWS, broker_row, is_dynamic
from kwire.base.config.errors import ConfigError
from kwire.base.config.kafka_config import KafkaConfig
from kwire.base.config.tables.resources import CLIENT_METRICS_ROWS, GROUP_ROWS
from kwire.base.config.topic_config import validate_topic
from kwire.base.config.values import Row, parse_value
from kwire.base.errors import ErrorCode, KafkaError

# Kafka's ConfigResource.Type codes.
TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

MIN_ISR: Final = "min.insync.replicas"

_GROUP_ROWS: dict[str, Row] = {row[0]: row for row in GROUP_ROWS}
_CLIENT_METRICS_ROWS: dict[str, Row] = {row[0]: row for row in CLIENT_METRICS_ROWS}
_MATCH_NAMES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_INTERVAL_MS: Final = (100, 3_600_000)
_MATCH_LENGTH_MAX: Final = 1000
# What belongs to a listener's certificates. Other ssl. and sasl. properties may be set for a broker without a prefix.
_ONLY_OF_A_LISTENER: Final = frozenset(
    {
        "ssl.engine.factory.class",
        "ssl.key.password",
        *(f"ssl.keystore.{each}" for each in ("certificate.chain", "key", "location", "password", "type")),
        *(f"ssl.truststore.{each}" for each in ("certificates", "location", "password", "type")),
    }
)
_THREAD_COUNTS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def config_type(resource: int, name: str) -> str | None:
    """The type of a property of some kind of resource (``LIST``, ``INT``, ...), ``None`` for an unknown name."""
    if resource == BROKER:
        row = broker_row(name)
    else:
        row = {TOPIC: TOPIC_ROWS, GROUP: _GROUP_ROWS, CLIENT_METRICS: _CLIENT_METRICS_ROWS}.get(resource, {}).get(name)
    return None if row is None else row[1]


def default_text(config: KafkaConfig, resource: int, name: str) -> tuple[str, ...]:
    """The entries of a list property where nothing is set for the resource itself: what APPEND appends to."""
    if resource == TOPIC:
        value = config.topic_config()[name]
    elif resource == BROKER:
        value = config[name] if name in BROKER_ROWS else ()
    else:
        value = ()
    return tuple(value or ())


class ResourceValidator:
    """Judges the properties a resource would have: call it with Kafka's resource type, the name and the texts.

    Raises `KafkaError`. A controller uses it before anything is written.
    """

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config

    def __call__(self, resource: int, name: str, values: Mapping[str, str]) -> None:
        """Validate all properties of one resource."""
        if resource == TOPIC:
            self._topic(name, values)
        elif resource == BROKER:
            self._broker(name, values)
        elif resource == GROUP:
            self._group(name, values)
        elif resource == CLIENT_METRICS:
            self._client_metrics(name, values)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource}")

    def _topic(self, name: str, values: Mapping[str, str]) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        try:
            validate_topic(self._config, values)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def _broker(self, name: str, values: Mapping[str, str]) -> None:
        self._broker_names(name, values)
        self._min_isr(name, values)
        try:
            if name:
                self._config.validate_dynamic(self._config.dynamic_default, values)
            else:
                self._config.validate_dynamic(values, {})
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        self._thread_counts(values)

    @staticmethod
    def _min_isr(name: str, values: Mapping[str, str]) -> None:
        """Eligible leader replicas depend on one minimum for the whole cluster (KIP-966)."""
        if name and MIN_ISR in values:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{MIN_ISR} cannot be set for one broker, only for all of them.")
        if not name and MIN_ISR not in values:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{MIN_ISR} cannot be removed, only set to another value.")

    @staticmethod
    def _broker_names(name: str, values: Mapping[str, str]) -> None:
        """Kafka's three rules about names, in its words."""
        fixed = [each for each in values if broker_row(each) is not None and not is_dynamic(each)]
        _refuse_names(fixed, "Cannot update these configs dynamically")
        bare = [each for each in values if each in _ONLY_OF_A_LISTENER]
        listener = "using the listener prefix"
        _refuse_names(bare, f"These security configs can be dynamically updated only per-listener {listener}")
        single = [each for each in values if (row := broker_row(each)) and row[4] == "per-broker"]
        if not name:
            _refuse_names(single, "Cannot update these configs at default cluster level")

    def _thread_counts(self, values: Mapping[str, str]) -> None:
        for each in _THREAD_COUNTS:
            if each in values:
                old, new = self._config[each], parse_value(BROKER_ROWS[each], values[each])
                if not old / 2 <= new <= old * 2:
                    message = f"{each}={new}: must be at least half and at most double of {old}"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)

    def _group(self, name: str, values: Mapping[str, str]) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        try:
            parsed = {each: parse_value(_group_row(each, text), text) for each, text in values.items()}
            for each, value in parsed.items():
                self._group_limits(each, value)
            self._group_timeouts(parsed)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def _group_limits(self, name: str, value: Any) -> None:
        """The broker's own limits, which have the same name with ``min`` and ``max`` in it."""
        kind, _, rest = name.partition(".")
        lowest, highest = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if name == "streams.num.standby.replicas":
            highest = "group.streams.max.standby.replicas"
        low, high = self._config_or_none(lowest), self._config_or_none(highest)
        if low is not None and value < low:
            raise _out_of_limits(f"{name} must be greater than or equal to {lowest}", low, value)
        if high is not None and value > high:
            raise _out_of_limits(f"{name} must be less than or equal to {highest}", high, value)

    def _group_timeouts(self, values: Mapping[str, Any]) -> None:
        """Each session timeout must be longer than the heartbeat interval, with the broker's in place of what the group
        does not set."""
        for kind in ("consumer", "share", "streams"):
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            timeout_ms, interval_ms = (values.get(each, self._config[f"group.{each}"]) for each in (session, heartbeat))
            if timeout_ms <= interval_ms:
                raise _out_of_limits(f"{session} must be greater than {heartbeat}", interval_ms, timeout_ms)

    def _config_or_none(self, name: str) -> Any:
        return self._config[name] if name in BROKER_ROWS else None

    def _client_metrics(self, name: str, values: Mapping[str, str]) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A client metrics subscription must have a name.")
        for each in values:
            if each not in _CLIENT_METRICS_ROWS:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{each} is no client metrics property.")
        try:
            parsed = {each: parse_value(_CLIENT_METRICS_ROWS[each], text) for each, text in values.items()}
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        interval_ms = parsed.get("interval.ms", 300_000)
        if not _INTERVAL_MS[0] <= interval_ms <= _INTERVAL_MS[1]:
            message = f"interval.ms={interval_ms}: must be between {_INTERVAL_MS[0]} and {_INTERVAL_MS[1]}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        for pattern in parsed.get("match", ()):
            _check_match(pattern)


def _refuse_names(names: Sequence[str], problem: str) -> None:
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{problem}: [{', '.join(names)}]")


def _out_of_limits(rule: str, limit: int, value: int) -> KafkaError:
    """The error for a group's property, with Kafka's words for the rule before the numbers."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{rule} ({limit}), not {value}")


def _group_row(name: str, text: str) -> Row:
    row = _GROUP_ROWS.get(name)
    if row is None:
        raise ConfigError(name, text, "is no group property")
    return row


def _check_match(text: str) -> None:
    name, equals, pattern = text.partition("=")
    if not equals or name.strip() not in _MATCH_NAMES or len(pattern) > _MATCH_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"match: {text} is no name=pattern of a client.")
    try:
        re.compile(pattern.strip())
    except (re.error, RecursionError, OverflowError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"match: {text}: {error}") from None
