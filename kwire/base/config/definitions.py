"""All broker definitions in one mapping, and the small questions about a name.

The rows are facts of Kafka (`tables/`); what kwire makes of a property is in `support.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

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
MECHANISM_PREFIXES = frozenset({"gssapi", "oauthbearer", "plain", "scram-sha-256", "scram-sha-512"})
"""What may stand between a listener's prefix and a property: a SASL mechanism, in lower case as in Kafka."""


STORE_PROPERTIES = frozenset(
    [
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]
)
"""Key store and trust store: what of TLS can be changed while a broker runs, under a listener's prefix."""


class ListenerProperty(NamedTuple):
    """``listener.name.<listener>.<mechanism>.<name>`` in its parts; ``mechanism`` is empty where there is none."""

    listener: str
    mechanism: str
    name: str


def listener_property(name: str) -> ListenerProperty | None:
    """The parts of a name with a listener's prefix; None if it has none, or no property of Kafka's behind it."""
    if not name.startswith(LISTENER_PREFIX) or name in BROKER_ROWS:
        return None
    words = name[len(LISTENER_PREFIX) :].split(".")
    for length in range(1, len(words)):  # listeners may have dots in their names
        listener, rest = ".".join(words[:length]), words[length:]
        if ".".join(rest) in BROKER_ROWS:
            return ListenerProperty(listener, "", ".".join(rest))
        if rest[0] in MECHANISM_PREFIXES and ".".join(rest[1:]) in BROKER_ROWS:
            return ListenerProperty(listener, rest[0], ".".join(rest[1:]))
    return None


def general_name(name: str) -> str:
    """A property's name without the prefix of a listener and of a mechanism."""
    found = listener_property(name)
    return name if found is None else found.name


def is_checked_by_broker(names: Iterable[str]) -> bool:
    """Whether there are properties whose values only the broker itself can check: by its files or directories."""
    given = list(names)
    return has_stores(given) or "cordoned.log.dirs" in given


def has_stores(names: Iterable[str]) -> bool:
    """Whether key stores or trust stores are among the properties: their files are read again whenever they are set."""
    return any(general_name(name) in STORE_PROPERTIES for name in names)


def broker_row(name: str) -> Row | None:
    """The definition of a broker property, also under a listener's prefix (``listener.name.<listener>.``), with or
    without a SASL mechanism behind it."""
    return BROKER_ROWS.get(general_name(name))


def broker_synonyms(name: str) -> tuple[str, ...]:
    """A property and the names it is also known by, strongest first. A listener's own value comes before the
    general one."""
    if (found := listener_property(name)) is not None:
        return (name, found.name)
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
