"""The pages of properties: of brokers, of topics, groups, subscriptions to client metrics, and quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kwire.base.config.definitions import BROKER_ROWS, BROKER_SYNONYMS, INTERNAL, TOPIC_INTERNAL, TOPIC_ROWS, default_of
from kwire.base.config.documentation import BROKER_DOCUMENTATION, RESOURCE_DOCUMENTATION, topic_documentation
from kwire.base.config.support import Support, support_of
from kwire.base.config.tables.kwire import DEFAULTS
from kwire.base.config.tables.resources import CLIENT_METRICS_ROWS, GROUP_ROWS, GROUP_SYNONYMS, QUOTA_ROWS
from kwire.base.config.tables.topics import SYNONYMS
from kwire.base.config.values import Row, format_value
from tools.reference.markdown import code, page, prose, table

_HEADINGS: Final = ("property", "type", "default", "values", "changes", "meaning")
_SECTIONS: Final = (
    (Support.SUPPORTED, "Supported", "They do what they do in Apache Kafka."),
    (
        Support.REFUSED,
        "Only with the default",
        "kwire does not have what these properties switch on. A broker does not start if one of them has another value "
        "than the default.",
    ),
    (
        Support.NO_EFFECT,
        "Without effect",
        "Accepted, so that a `server.properties` of Apache Kafka can be used as it is. They tune what kwire does not "
        "have: pools of threads, purgatories, a JVM.",
    ),
    (
        Support.KRAFT_ONLY,
        "For KRaft",
        "Accepted without effect: kwire has no KRaft quorum. One line in the log names those that are set.",
    ),
)
_CHANGES: Final = {"read-only": "restart", "per-broker": "per broker", "cluster-wide": "running"}
_LONG_MAX: Final = 9223372036854775807


def broker_properties() -> str:
    """The page of broker properties."""
    own = [row for row in BROKER_ROWS.values() if row[0].startswith("kwire.")]
    zookeeper = [row for row in BROKER_ROWS.values() if row[0].startswith("zookeeper.")]
    rest = [row for row in BROKER_ROWS.values() if row not in own and row not in zookeeper]
    parts = [
        "Every property of a broker: those of Apache Kafka 4.3, those of ZooKeeper as Apache Kafka 3 had them, and "
        "kwire's own. Set them in a `server.properties`, in the environment or with `--set` "
        "([RUNNING.md](../RUNNING.md)).",
        "Where kwire's default differs, Kafka's is in brackets. The column *changes* tells when a new value counts: "
        "after a restart, or while brokers are running, for each broker or all of them (`kwire config set broker/ID`, "
        "`broker/*`). Properties of security can have the prefix "
        "`listener.name.LISTENER.`, those of a mechanism `listener.name.LISTENER.MECHANISM.`, too.",
    ]
    for support, title, meaning in _SECTIONS:
        rows = [row for row in rest if support_of(row[0]) is support and row[0] not in INTERNAL]
        parts += [f"## {title}", meaning, _broker_table(rows)]
    parts += ["## kwire's own", _broker_table(own)]
    parts += ["## ZooKeeper", "For brokers on several hosts ([CLUSTER.md](../CLUSTER.md)).", _broker_table(zookeeper)]
    return page("Broker properties", *parts)


def other_properties() -> str:
    """The page of the properties of everything else."""
    topics = (row for row in TOPIC_ROWS.values() if row[0] not in TOPIC_INTERNAL)
    return page(
        "Properties of topics, groups and others",
        "`kwire config set topic/NAME name=value` sets the property of a topic, `group/NAME` that of a group, "
        "`client-metrics/NAME` that of a subscription.",
        "## Topics",
        "A topic without a value of its own has that of the broker property in the last column.",
        _table(topics, _of_topic, "broker property"),
        "## Groups",
        _table(GROUP_ROWS, _of_group, "broker property"),
        "## Subscriptions to the metrics of clients",
        "[CLIENT_METRICS.md](../CLIENT_METRICS.md) shows how they are used.",
        table(("property", "type", "default", "meaning"), map(_of_subscription, CLIENT_METRICS_ROWS)),
        "## Quotas",
        "Limits of users, client ids and both: `kwire quota add` ([ACCESS_CONTROL.md](../ACCESS_CONTROL.md)).",
        table(("quota", "type", "unit"), map(_of_quota, QUOTA_ROWS)),
    )


def _broker_table(rows: Iterable[Row]) -> str:
    return table(_HEADINGS, (_of_broker(row) for row in sorted(rows)))


def _of_broker(row: Row) -> list[str]:
    name, kind, default, _, mode, validator = row
    shown = _value(kind, default_of(name))
    if name in DEFAULTS:
        shown += f" ({_value(kind, default)})"
    return [code(name), kind.lower(), shown, _limits(validator), _CHANGES[mode], _meaning(name)]


def _meaning(name: str) -> str:
    sentence = prose(BROKER_DOCUMENTATION.get(name, ""))
    others = ", ".join(code(each) for each in BROKER_SYNONYMS.get(name, ()) if each != name)
    also = f"Also {others}; the first that is set counts." if others else ""
    return f"{sentence} {also}".strip()


def _table(rows: Iterable[Row], describe: Callable[[Row], list[str]], last: str) -> str:
    return table(("property", "type", "default", "values", "meaning", last), (describe(row) for row in rows))


def _of_topic(row: Row) -> list[str]:
    broker = [code(name) for name, _ in SYNONYMS.get(row[0], ())]
    return [*_first_columns(row), prose(topic_documentation(row[0]) or ""), ", ".join(broker)]


def _of_group(row: Row) -> list[str]:
    broker = GROUP_SYNONYMS.get(row[0], "")
    sentence = RESOURCE_DOCUMENTATION.get(row[0]) or BROKER_DOCUMENTATION.get(broker, "")
    return [*_first_columns(row), prose(sentence), code(broker)]


def _of_subscription(row: Row) -> list[str]:
    return [code(row[0]), row[1].lower(), _value(row[1], row[2]), prose(RESOURCE_DOCUMENTATION[row[0]])]


_QUOTA_UNITS: Final = {
    "consumer_byte_rate": "bytes per second, of each broker",
    "producer_byte_rate": "bytes per second, of each broker",
    "request_percentage": "percent of the time of a broker's thread",
    "controller_mutation_rate": "partitions created or deleted per second",
}


def _of_quota(row: Row) -> list[str]:
    return [code(row[0]), row[1].lower(), _QUOTA_UNITS[row[0]]]


def _first_columns(row: Row) -> list[str]:
    return [code(row[0]), row[1].lower(), _value(row[1], row[2]), _limits(row[5])]


def _value(kind: str, value: Any) -> str:
    if value is None:
        return "none"
    return code(format_value(kind, value) or "") or "empty"


def _limits(validator: tuple[Any, ...] | None) -> str:
    """The values that a validator of the tables allows (`kwire.base.config.values`)."""
    return "" if validator is None else ", ".join(_of_validator(*validator))


def _of_validator(kind: str, *limits: Any) -> Iterator[str]:
    if kind in ("range", "range_or"):
        low, high, *others = limits
        yield _range(low, high)
        yield from (code(str(each)) for each in others)
    elif kind in ("in", "in_any_case") or (kind == "list" and limits[0] is not None):
        yield from (code(str(each)) for each in limits[0])
    elif kind == "non_empty":
        yield "not empty"
    elif kind == "throttled_replicas":
        yield "`PARTITION:BROKER`, `*`"
    elif kind == "share_offset_reset":
        yield "`earliest`, `latest`, `by_duration:DURATION` (ISO 8601)"


def _range(low: Any, high: Any) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high in (None, _LONG_MAX) else f"{low} to {high}"
