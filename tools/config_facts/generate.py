"""Write `kwire/base/config/tables/` and `typed.py` from Apache Kafka's configuration definitions.

    java -cp <Kafka's jars> ConfigFacts.java > facts.tsv && python generate.py facts.tsv

Facts only (names, types, defaults, limits, update modes, synonyms); kwire's own view of a property (supported,
refused, documentation) is written by hand in `kwire/base/config/support.py` and `documentation.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFIG = Path(__file__).resolve().parents[2] / "kwire" / "base" / "config"
KAFKA_VERSION = "4.3"

# File, what it holds, how the names begin (first match wins; the last one takes what is left).
SUBJECTS = [
    (
        "security",
        "security: SASL, TLS, delegation tokens, authorisation",
        "sasl. ssl. delegation. authorizer security. principal. connections.max.reauth connection.failed",
    ),
    ("remote_storage", "tiered storage", "remote. follower.fetch.last.tiered log.local."),
    (
        "kraft",
        "KRaft's own quorum, which kwire does not have",
        "controller.listener controller.performance controller.quorum controller.socket metadata. process.roles "
        "broker.heartbeat broker.session initial.broker early.start internal.metadata server.max.startup cordoned",
    ),
    (
        "groups",
        "group, share and transaction coordinators",
        "group. offset share. transaction add.partitions producer.id",
    ),
    (
        "storage",
        "logs on disk",
        "log. compression. message.max min.insync unclean num.recovery num.partitions background auto.create "
        "delete.topic num.replica.alter",
    ),
    (
        "network",
        "listeners, connections and requests",
        "listener advertised inter.broker socket max.conn connections queued request.timeout num.io num.network "
        "max.request fetch. max.incremental delete.records producer.purgatory telemetry",
    ),
    ("operation", "identity, replication, quotas, metrics and plug-ins", ""),
]


def python_value(text: str, kind: str) -> object:
    """The Python value of a default, by its Kafka type."""
    if text == "\\N":
        return None
    if kind in ("INT", "SHORT", "LONG"):
        return int(text)
    if kind == "DOUBLE":
        return float(text)
    if kind == "BOOLEAN":
        return text == "true"
    if kind == "LIST":
        return tuple(text.split(",")) if text else ()
    return text


def number(text: str) -> object:
    """An int, or a float if there is a decimal point."""
    return float(text) if "." in text else int(text)


def choices(text: str) -> tuple[str, ...]:
    """The items between square brackets."""
    return tuple(item.strip() for item in text[text.index("[") + 1 : text.rindex("]")].split(","))


def validator(text: str) -> tuple[object, ...] | None:
    """The validator of a property as a tuple; None if there is none."""
    kind, _, description = text.partition(":")
    if kind == "Range":
        bounds = description.strip("[]").split(",...")
        return ("range", number(bounds[0]), number(bounds[1].strip(",")) if bounds[1].strip(",") else None)
    if kind == "lambda":
        return ("range_or", 1, 9, -1)
    if kind.startswith("ValidList"):
        allowed = choices(description) if "[" in description else None
        return ("list", allowed, kind[9] == "+", kind[10] == "+")
    if kind == "ValidString":
        return ("in", choices(description))
    if kind == "CaseInsensitiveValidString":
        return ("in_any_case", choices(description))
    named = {
        "": None,
        "NonEmptyString": ("non_empty",),
        "NonNullValidator": None,
        "ThrottledReplicaListValidator": ("throttled_replicas",),
        "Validator": ("share_offset_reset",),
        "ControllerQuorumBootstrapServersValidator": None,
        "ControllerQuorumVotersValidator": None,
    }
    return named[kind]


def read_facts(path: str) -> dict[str, list[list[str]]]:
    """The rows of the facts file, by their kind."""
    facts: dict[str, list[list[str]]] = {}
    for line in Path(path).read_text().splitlines():
        kind, *cells = line.split("\t")
        facts.setdefault(kind, []).append(cells)
    return facts


def rows_of(facts: dict[str, list[list[str]]], table: str) -> list[tuple[object, ...]]:
    """The rows of one table: name, type, default, importance, update mode, validator."""
    modes = dict(facts["mode"])
    rows: list[tuple[object, ...]] = []
    for owner, name, kind, default, importance, _internal, check in facts["def"]:
        if owner == table:
            value = None if default == "\x01required" else python_value(default, kind)
            mode = modes.get(name, "read-only") if table == "broker" else "dynamic"
            rows.append((name, kind, value, importance, mode, validator(check)))
    return rows


def internal_of(facts: dict[str, list[list[str]]], table: str) -> list[str]:
    """The names of a table's internal properties."""
    return [name for owner, name, _, _, _, internal, _ in facts["def"] if owner == table and internal == "true"]


HEAD = '''"""Kafka {version}'s properties about {what}: facts only.

Written by `tools/config_facts/generate.py`; do not edit. A row: name, type, default, importance, update mode,
validator (`kwire.base.config.values` explains the validators).
"""

from __future__ import annotations

'''


def table_source(what: str, names: dict[str, list[tuple[object, ...]]], extra: str = "") -> str:
    """The source of a table module."""
    lines = [HEAD.format(version=KAFKA_VERSION, what=what)]
    for constant, rows in names.items():
        lines.append(f"{constant} = (\n" + "".join(f"    {row!r},\n" for row in rows) + ")\n")
    return "\n".join(lines) + extra


def write(path: Path, text: str) -> None:
    """Write a file, and create its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_broker_tables(facts: dict[str, list[list[str]]]) -> None:
    """Write the tables of broker properties, one module per subject."""
    rows = rows_of(facts, "broker")
    taken: set[str] = set()
    for file, what, starts in SUBJECTS:
        mine = [row for row in rows if row[0] not in taken and str(row[0]).startswith(tuple(starts.split() or [""]))]
        taken.update(str(row[0]) for row in mine)
        write(CONFIG / "tables" / f"{file}.py", table_source(what, {"ROWS": mine}))
    internal = (
        "\nINTERNAL = frozenset(\n    {\n"
        + "".join(f"        {n!r},\n" for n in internal_of(facts, "broker"))
        + "    }\n)\n"
    )
    quota = rows_of(facts, "broker_quota")
    write(
        CONFIG / "tables" / "broker_quotas.py",
        table_source(
            "quotas that exist only as dynamic broker values",
            {"ROWS": [(*row[:4], "cluster-wide", row[5]) for row in quota]},
            internal,
        ),
    )


def write_resource_tables(facts: dict[str, list[list[str]]]) -> None:
    """Write the tables of topics, groups and other resources."""
    synonyms: dict[str, list[tuple[str, int]]] = {}
    for name, broker_name, factor in facts["topicsyn"]:
        synonyms.setdefault(name, []).append((broker_name, int(factor)))
    extra = f"\nINTERNAL = frozenset({set(internal_of(facts, 'topic'))!r})\n"
    extra += "\n# Topic name: the broker properties that give its default, first one set wins,\n"
    extra += "# and the factor to milliseconds.\n"
    extra += (
        "SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {\n"
        + "".join(f"    {k!r}: {tuple(v)!r},\n" for k, v in synonyms.items())
        + "}\n"
    )
    write(CONFIG / "tables" / "topics.py", table_source("one topic", {"ROWS": rows_of(facts, "topic")}, extra))
    groups = {name: other for name, other in facts["groupsyn"] if other != "\\N"}
    extra = "\nGROUP_SYNONYMS = {\n" + "".join(f"    {k!r}: {v!r},\n" for k, v in groups.items()) + "}\n"
    tables = {"GROUP_ROWS": "group", "CLIENT_METRICS_ROWS": "client_metrics", "QUOTA_ROWS": "quota"}
    source = table_source(
        "groups, client metrics subscriptions and client quotas",
        {k: rows_of(facts, v) for k, v in tables.items()},
        extra,
    )
    write(CONFIG / "tables" / "resources.py", source)


TYPES = {"BOOLEAN": "bool", "INT": "int", "SHORT": "int", "LONG": "int", "DOUBLE": "float", "LIST": "tuple[str, ...]"}

TYPED_HEAD = '''"""The attributes of a `KafkaConfig`, one for each broker property of Kafka 4.3, with their types.

Written by `tools/config_facts/generate.py`; do not edit. Nothing is executed here but annotations: the values are
instance attributes that `KafkaConfig` sets, so that reading one on a hot path costs one attribute access.
"""

from __future__ import annotations


class BrokerProperties:
    """`log.retention.ms` is `log_retention_ms`. ``None``: Kafka's default is "not set"."""

'''


def write_typed(facts: dict[str, list[list[str]]]) -> None:
    """Write `typed.py`: an annotated attribute for each broker property."""
    lines = []
    for row in [*rows_of(facts, "broker"), *rows_of(facts, "broker_quota")]:
        name, kind, default = str(row[0]), str(row[1]), row[2]
        optional = default is None and name not in ("node.id", "process.roles", "controller.listener.names")
        lines.append(f"    {name.replace('.', '_')}: {TYPES.get(kind, 'str')}{' | None' if optional else ''}\n")
    write(CONFIG / "typed.py", TYPED_HEAD + "".join(sorted(lines)))


def main(path: str) -> None:
    """Write all files from the facts file at `path`, and format them."""
    facts = read_facts(path)
    write_broker_tables(facts)
    write_resource_tables(facts)
    write_typed(facts)
    write(
        CONFIG / "tables" / "__init__.py",
        '"""What Kafka\'s own definitions say, as plain tuples, one module for each subject."""\n',
    )
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-q", str(CONFIG / "tables"), str(CONFIG / "typed.py")], check=True
    )
    subprocess.run(
        [sys.executable, "-m", "ruff", "check", "-q", "--fix", str(CONFIG / "tables"), str(CONFIG / "typed.py")],
        check=True,
    )


if __name__ == "__main__":
    main(sys.argv[1])
