"""DescribeConfigs' view of configuration: every property with its value, the value's source, and its synonyms.

One generator for each kind of resource yields `ConfigEntry`s; the handler builds the response from
those that were requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kwire.base.config.definitions import (
    BROKER_ROWS,
    INTERNAL,
    SHARED_STORE,
    TOPIC_INTERNAL,
    TOPIC_ROWS,
    broker_row,
    broker_synonyms,
    default_of,
    is_dynamic,
    is_sensitive,
)
from kwire.base.config.errors import ConfigError
from kwire.base.config.kafka_config import KafkaConfig
from kwire.base.config.tables import broker_quotas
from kwire.base.config.tables.resources import CLIENT_METRICS_ROWS, GROUP_ROWS, GROUP_SYNONYMS
from kwire.base.config.tables.topics import SYNONYMS
from kwire.base.config.values import CONFIG_TYPE_CODES, Row, format_value, parse_value


class ConfigSource(IntEnum):
    """The numbers of DescribeConfigsResponse's ConfigSource."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One source that has a value for a property, under its own name or a synonym."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One property. ``synonyms``: all sources with a value, the effective one first; ``type_code``: Kafka's code of its
    type."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: list[Synonym]
    type_code: int


_QUOTA_NAMES = frozenset(row[0] for row in broker_quotas.ROWS)
_GROUP_ROWS: dict[str, Row] = {row[0]: row for row in GROUP_ROWS}
_CLIENT_METRICS_ROWS: dict[str, Row] = {row[0]: row for row in CLIENT_METRICS_ROWS}


def describe_topic(config: KafkaConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The properties of a topic. ``overrides``: those that are set for the topic itself, as texts."""
    values = config.topic_config(overrides)
    for name, row in TOPIC_ROWS.items():
        if name in TOPIC_INTERNAL and name not in overrides:
            continue
        synonyms = _own(name, row, values[name], overrides, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        if name in SYNONYMS:
            synonyms += _broker_values(config, SYNONYMS[name][0][0])
        yield _entry(name, row, values[name], synonyms)


def describe_broker(config: KafkaConfig) -> Iterator[ConfigEntry]:
    """The properties of this broker, Kafka's internal ones only if they are set."""
    given = [*config.static, *config.dynamic_default, *config.dynamic_broker]
    hidden = (INTERNAL | SHARED_STORE | _QUOTA_NAMES).difference(given)
    for name in dict.fromkeys([*(name for name in BROKER_ROWS if name not in hidden), *given]):
        yield _broker_entry(config, name, _broker_values(config, name))


def describe_broker_defaults(config: KafkaConfig) -> Iterator[ConfigEntry]:
    """The dynamic default properties of all brokers (the resource with the empty name)."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, text in config.dynamic_default.items():
        synonyms = [synonym for synonym in _broker_values(config, name) if synonym.source is source]
        yield _broker_entry(config, name, synonyms)._replace(value=None if is_sensitive(name) else text)


def describe_group(config: KafkaConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The properties of a consumer, share or streams group. ``overrides``: those that are set for the group itself."""
    for name, row in _GROUP_ROWS.items():
        broker_name = GROUP_SYNONYMS.get(name)
        value = _parsed(row, overrides.get(name), row[2] if broker_name is None else config[broker_name])
        synonyms = _own(name, row, value, overrides, ConfigSource.DYNAMIC_GROUP_CONFIG)
        if broker_name is None:
            synonyms.append(Synonym(name, format_value(row[1], row[2]), ConfigSource.DEFAULT_CONFIG))
        else:
            synonyms += _broker_values(config, broker_name)
        yield _entry(name, row, value, synonyms)


def describe_client_metrics(overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The properties of a client metrics subscription. ``overrides``: those that are set for it."""
    for name, row in _CLIENT_METRICS_ROWS.items():
        value = _parsed(row, overrides.get(name), row[2])
        synonyms = _own(name, row, value, overrides, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
        yield _entry(name, row, value, synonyms)


def describe_loggers(levels: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Loggers and their levels."""
    for name, level in levels.items():
        yield ConfigEntry(name, level, False, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, [], 0)


def documentation_of(entry: ConfigEntry) -> str | None:
    """One sentence about a property, if there is one."""
    from kwire.base.config import documentation as texts

    name = entry.name
    return (
        texts.BROKER_DOCUMENTATION.get(name)
        or texts.topic_documentation(name)
        or texts.RESOURCE_DOCUMENTATION.get(name)
    )


def _parsed(row: Row, text: str | None, default: Any) -> Any:
    try:
        return default if text is None else parse_value(row, text)
    except ConfigError:
        return default


def _own(name: str, row: Row, value: Any, overrides: Mapping[str, str], source: ConfigSource) -> list[Synonym]:
    return [Synonym(name, format_value(row[1], value), source)] if name in overrides else []


def _entry(name: str, row: Row, value: Any, synonyms: list[Synonym]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(name, format_value(row[1], value), False, source, False, synonyms, CONFIG_TYPE_CODES[row[1]])


def _broker_entry(config: KafkaConfig, name: str, synonyms: list[Synonym]) -> ConfigEntry:
    row = broker_row(name)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if row is None:  # it may be a secret of a plug-in
        return ConfigEntry(name, None, True, source, True, synonyms, 0)
    sensitive = is_sensitive(name)
    value = None if sensitive else format_value(row[1], config[name])
    # As in Kafka, a property under a listener's prefix counts as fixed, although it can be changed.
    fixed = name not in BROKER_ROWS or not is_dynamic(name)
    return ConfigEntry(name, value, fixed, source, sensitive, synonyms, CONFIG_TYPE_CODES[row[1]])


def _broker_values(config: KafkaConfig, name: str) -> list[Synonym]:
    """The sources that have a value for a broker property, in order of precedence. As in Kafka, values of its synonyms
    are left out if they precede the first value of the property itself."""
    names = broker_synonyms(name)
    layers: Iterable[tuple[ConfigSource, Mapping[str, str]]] = (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, config.static),
    )
    sensitive = is_sensitive(name)
    found = [
        Synonym(each, None if sensitive else layer[each], source)
        for source, layer in layers
        for each in names
        if each in layer
    ]
    for each in names:
        row = BROKER_ROWS.get(each)
        default = default_of(each)
        if row is not None and default is not None and each not in _QUOTA_NAMES:
            text = None if sensitive else format_value(row[1], default)
            found.append(Synonym(each, text, ConfigSource.DEFAULT_CONFIG))
    while found and found[0].name != name:
        found.pop(0)
    return found
