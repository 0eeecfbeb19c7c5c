"""All broker definitions in one mapping, and the small questions about a name.

The rows are facts of Kafka (`tables/`); what kwire makes of a property is in `support.py`.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from kwire.base.config.tables import (
    broker_quotas,
    groups,
    kraft,
    kwire,
    network,
    operation,
    remote_storage,
    security,
    storage,
    topics,
    zookeeper,
)
from kwire.base.config.values import Row

BROKER_ROWS: dict[str, Row] = {
    row[0]: row
    for row in chain[Any](
        network.ROWS,
        storage.ROWS,
        groups.ROWS,
        operation.ROWS,
        broker_quotas.ROWS,
        security.ROWS,
        remote_storage.ROWS,
        kraft.ROWS,
        kwire.ROWS,
        zookeeper.ROWS,
    )
}
TOPIC_ROWS: dict[str, Row] = {row[0]: row for row in chain[Any](topics.ROWS)}
INTERNAL = broker_quotas.INTERNAL
TOPIC_INTERNAL = topics.INTERNAL
SHARED_STORE = frozenset({"kwire.metadata.dir", *(row[0] for row in zookeeper.ROWS)})
"""Of interest only if several brokers share a metadata store: described only if set."""

_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
# Names that mean the same value: the first one that is set wins (`DynamicBrokerConfig.brokerConfigSynonyms`).
BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    **dict.fromkeys(("log.roll.ms", "log.roll.hours"), ("log.roll.ms", "log.roll.hours")),
    **dict.fromkeys(("log.roll.jitter.ms", "log.roll.jitter.hours"), ("log.roll.jitter.ms", "log.roll.jitter.hours")),
    **dict.fromkeys(_RETENTION, _RETENTION),
}

LISTENER_PREFIX = "listener.name."


def broker_row(name: str) -> Row | None:
    """The definition of a broker property, also under a listener's prefix (``listener.name.<listener>.``)."""
    row = BROKER_ROWS.get(name)
    if row is None and name.startswith(LISTENER_PREFIX):
        return BROKER_ROWS.get(name[len(LISTENER_PREFIX) :].partition(".")[2])
    return row


def broker_synonyms(name: str) -> tuple[str, ...]:
    """A property and the names it is also known by, strongest first. A listener's own value comes before the
    general one."""
    if name not in BROKER_ROWS and name.startswith(LISTENER_PREFIX):
        return (name, name[len(LISTENER_PREFIX) :].partition(".")[2])
    return BROKER_SYNONYMS.get(name, (name,))


def default_of(name: str) -> Any:
    """The default of a broker property in kwire: Kafka's, except for those of `tables/kwire.py`."""
    if name in kwire.DEFAULTS:
        return kwire.DEFAULTS[name]
    row = BROKER_ROWS.get(name)
    return None if row is None else row[2]


def is_sensitive(name: str) -> bool:
    """Whether a value must never be shown: passwords, and unknown names (they may belong to a plug-in)."""
    row = broker_row(name)
    return row is None or row[1] == "PASSWORD"


def is_dynamic(name: str) -> bool:
    """Whether the value can be changed while the broker runs."""
    row = broker_row(name)
    return row is not None and row[4] != "read-only"
