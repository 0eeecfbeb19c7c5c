"""Topic properties: defaults taken from the broker, overrides, and what may be set.

The result is a plain mapping from Kafka's topic property names to typed values; the log makes its own object of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kwire.base.config.definitions import TOPIC_ROWS
from kwire.base.config.errors import ConfigError
from kwire.base.config.tables.topics import SYNONYMS
from kwire.base.config.values import parse_value


class BrokerValues(Protocol):
    """Typed broker values by Kafka's name: a `KafkaConfig`, or the mapping inside one."""

    def __getitem__(self, name: str, /) -> Any: ...


def topic_defaults(broker: BrokerValues) -> dict[str, Any]:
    """The value of every topic property on a broker with these values, if the topic does not set it."""
    return {name: _default(name, row[2], broker) for name, row in TOPIC_ROWS.items()}


def _default(name: str, definition: Any, broker: BrokerValues) -> Any:
    for broker_name, factor in SYNONYMS.get(name, ()):
        value = broker[broker_name]
        if value is not None:
            # Only times have a factor; a negative time means "no limit" in every unit.
            return value if factor == 1 and name != "retention.ms" else max(value * factor, -1)
    return definition


def topic_values(defaults: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Defaults with a topic's own texts over them; a text that cannot be taken counts as absent."""
    values = dict(defaults)
    for name, text in overrides.items():
        if name in TOPIC_ROWS:
            try:
                values[name] = parse_value(TOPIC_ROWS[name], text)
            except ConfigError:
                continue
    return values


def validate_topic(broker: BrokerValues, overrides: Mapping[str, str | None]) -> None:
    """Whether a topic may have these texts.

    Raises `ConfigError`, sent to the client as INVALID_CONFIG, for unknown names, wrong values, tiered storage and a
    compaction lag whose minimum is above its maximum.
    """
    parsed: dict[str, Any] = {}
    for name, text in overrides.items():
        if name not in TOPIC_ROWS:
            raise ConfigError(name, text, "is no topic property")
        if text is None:
            raise ConfigError(name, None, "must have a value")
        parsed[name] = parse_value(TOPIC_ROWS[name], text)

    def value(name: str) -> Any:
        return parsed[name] if name in parsed else _default(name, TOPIC_ROWS[name][2], broker)

    if value("min.compaction.lag.ms") > value("max.compaction.lag.ms"):
        text = str(value("min.compaction.lag.ms"))
        raise ConfigError("min.compaction.lag.ms", text, "must be at most max.compaction.lag.ms")
    if value("remote.storage.enable"):
        raise ConfigError("remote.storage.enable", "true", "tiered storage is not enabled on this broker")
