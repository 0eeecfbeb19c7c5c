"""The facts of Kafka's message tables, read out of its jars: names, types, versions, tags, defaults, nullability.

The prose in those tables is not kept. `tools/generate_messages.py` generates Python classes from them; the Java
oracle in `compat_tests/comparisons/codec` uses the original field names.
"""

from __future__ import annotations

import json
import keyword
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KAFKA_VERSION = "4.3.1"
JARS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-storage",
    "kafka-metadata",
)
TABLE = re.compile(r"^(common/)?(message|metadata)/\w+\.json$")
LAST = 32767


@dataclass(frozen=True)
class Versions:
    """An inclusive range of versions; empty when first > last."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Parse a range such as "0-3", "2+" or "none". None is the empty range."""
        if text is None or text == "none":
            return cls(0, -1)
        first, plus, _ = text.partition("+")
        if plus:
            return cls(int(first), LAST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == LAST:
            return f"{self.first}+"
        return f"{self.first}-{self.last}" if self.first != self.last else str(self.first)

    def __and__(self, other: Versions) -> Versions:
        both = Versions(max(self.first, other.first), min(self.last, other.last))
        return both if both else Versions(0, -1)


@dataclass
class Field:
    """One field of a message or struct, in Kafka's terms."""

    kafka_name: str
    name: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None
    ignorable: bool
    flexible: Versions | None

    @property
    def element(self) -> str:
        """The type of the elements of an array, or the type itself."""
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.type.startswith("[]")

    @property
    def is_struct(self) -> bool:
        """Whether its type, or that of its elements, is a struct."""
        return self.element[0].isupper()


@dataclass
class StructTable:
    """A struct and its fields."""

    name: str
    fields: list[Field]


@dataclass
class MessageTable:
    """A message: its key, versions, fields and structs."""

    name: str
    type: str
    jar: str
    api_key: int
    versions: Versions
    flexible: Versions
    latest_unstable: bool
    listeners: tuple[str, ...]
    fields: list[Field]
    structs: list[StructTable] = field(default_factory=list)

    @property
    def module(self) -> str:
        """The name of its Python module, in snake case."""
        return snake_case(self.name)


def snake_case(name: str) -> str:
    """Kafka's camel case in snake case; KRaft counts as one word."""
    name = name.replace("KRaft", "Kraft").replace("kRaft", "kraft")
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def read_tables(jar_folder: Path) -> list[MessageTable]:
    """All messages of the jars in (or below) a folder, in order of name. Messages without a valid version are kept."""
    tables = []
    for artifact in JARS:
        jar = find_jar(jar_folder, artifact)
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if TABLE.match(entry):
                    tables.append(parse_table(artifact, archive.read(entry).decode()))
    return sorted(tables, key=lambda table: table.name)


def find_jar(jar_folder: Path, artifact: str) -> Path:
    """The path of one of Kafka's jars. Raises FileNotFoundError."""
    found = sorted(jar_folder.rglob(f"{artifact}-{KAFKA_VERSION}.jar"))
    if not found:
        raise FileNotFoundError(f"no {artifact}-{KAFKA_VERSION}.jar below {jar_folder}")
    return found[0]


def parse_table(artifact: str, text: str) -> MessageTable:
    """Parse one message definition (JSON with comments)."""
    raw = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    structs: list[StructTable] = []
    versions = Versions.parse(raw["validVersions"])
    fields = _parse_fields(raw.get("fields", []), structs)
    for struct in raw.get("commonStructs", []):
        parsed = StructTable(struct["name"], [])
        structs.append(parsed)
        parsed.fields = _parse_fields(struct["fields"], structs)
    return MessageTable(
        name=raw["name"],
        type=raw["type"],
        jar=artifact,
        api_key=raw.get("apiKey", -1),
        versions=versions,
        flexible=Versions.parse(raw.get("flexibleVersions")) & versions,
        latest_unstable=bool(raw.get("latestVersionUnstable", False)),
        listeners=tuple(raw.get("listeners", ())),
        fields=fields,
        structs=structs,
    )


def _parse_fields(raw_fields: list[dict[str, Any]], structs: list[StructTable]) -> list[Field]:
    fields = []
    for raw in raw_fields:
        parsed = _parse_field(raw)
        fields.append(parsed)
        if raw.get("fields"):
            struct = StructTable(parsed.element, [])
            structs.append(struct)
            struct.fields = _parse_fields(raw["fields"], structs)
    return fields


def _parse_field(raw: dict[str, Any]) -> Field:
    tagged = Versions.parse(raw.get("taggedVersions"))
    return Field(
        kafka_name=raw["name"],
        name=snake_case(raw["name"]),
        type=raw["type"],
        versions=Versions.parse(raw["versions"]) if "versions" in raw else tagged,
        nullable=Versions.parse(raw.get("nullableVersions")),
        tag=raw.get("tag"),
        tagged=tagged,
        default=_default(raw.get("default")),
        ignorable=_is_true(raw.get("ignorable", False)),
        flexible=Versions.parse(raw["flexibleVersions"]) if "flexibleVersions" in raw else None,
    )


def _default(raw: object) -> str | None:
    """The default as the tables write it; a JSON null is no default at all (only the string "null" means null)."""
    if raw is None or raw == "":
        return None
    if isinstance(raw, bool):
        return "true" if raw else "false"
    text = str(raw)
    return str(int(text, 0)) if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", text) else text


def _is_true(raw: object) -> bool:
    return raw is True or raw == "true"
