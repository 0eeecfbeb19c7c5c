"""Which metrics are wanted of which clients: the CLIENT_METRICS configurations (KIP-714).

A subscription names metrics by their prefixes, an interval, and patterns that attributes of a client must match as a
whole. A client gets the metrics of all subscriptions that match it, at the shortest of their intervals. What lives
elsewhere: the rules for such a configuration (`kwire.base.config.resources`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kwire.security.names.java_regex import JavaPattern, UnsupportedPattern

INTERVAL_MS: Final = 300_000
"""How often metrics are pushed unless a subscription says otherwise: Kafka's default of ``interval.ms``."""
ALL_METRICS: Final = "*"
"""Stands for all metrics in a subscription and in the response."""


class ClientAttributes(NamedTuple):
    """What patterns may match, by the names in ``match``. ``client_id`` is None for a client that has sent none."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """One CLIENT_METRICS configuration. ``patterns``: attribute and pattern; a pattern that this broker cannot
    translate is None and matches no client."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, JavaPattern | None], ...]

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Subscription:
        """The subscription of a configuration that has been validated."""
        patterns = (text.partition("=") for text in _entries(values, "match"))
        return cls(
            _entries(values, "metrics"),
            int(values.get("interval.ms", INTERVAL_MS)),
            tuple((name.strip(), _pattern(pattern.strip())) for name, _, pattern in patterns),
        )

    def matches(self, client: ClientAttributes) -> bool:
        """Whether the client's metrics are wanted."""
        return all(_matches(pattern, getattr(client, name)) for name, pattern in self.patterns)


class Wanted(NamedTuple):
    """What is wanted of one client: metrics by their prefixes, sorted, at an interval."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = INTERVAL_MS


def wanted(subscriptions: Iterable[Subscription], client: ClientAttributes) -> Wanted:
    """What these subscriptions want of a client; nothing at Kafka's default interval if none matches."""
    matching = [each for each in subscriptions if each.matches(client)]
    metrics = {metric for each in matching for metric in each.metrics}
    interval_ms = min((each.interval_ms for each in matching), default=INTERVAL_MS)
    return Wanted((ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics)), min(interval_ms, INTERVAL_MS))


def _entries(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(entry for each in values.get(name, "").split(",") if (entry := each.strip()))


def _pattern(text: str) -> JavaPattern | None:
    try:
        return JavaPattern(text)
    except (UnsupportedPattern, ValueError):
        return None


def _matches(pattern: JavaPattern | None, attribute: str | None) -> bool:
    return pattern is not None and attribute is not None and pattern.matches(attribute)
