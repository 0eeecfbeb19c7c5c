"""Random pairs of Avro schemas through Apache Avro's `SchemaCompatibility` and kwire's rules: no difference is allowed.

    .venv/bin/python -m campaigns.schemas.avro_compatibility --cases 100000 --seed 1

The writer's schema is made at random: records within records, some of which contain themselves, enumerations with and
without a default, fixed types, arrays, maps, unions, names with namespaces and aliases, fields with defaults. The
reader's is the same one with up to four changes, or another one. Names that are defined twice, or used before they
are defined, are left out: Java takes them since 1.12, kwire refuses them, as Java did before. Whether the reader
reads what the writer wrote has to be the same, and the kinds of what keeps it from that. A line of JSON is printed,
then the first differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, Final

from campaigns.java.oracle import OracleCampaign
from harness.kafka_jars import maven_jars
from harness.paths import ROOT
from kwire.schemas import SchemaError, parse

AVRO_VERSION: Final = "1.12.1"
SOURCE: Final = ROOT / "campaigns" / "java" / "AvroOracle.java"
PRIMITIVE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMES: Final = ("A", "B", "C", "x.D", "y.D", "E")
FIELDS: Final = ("f", "g", "h", "i")
SYMBOLS: Final = ("P", "Q", "R", "S")
_DEFAULTS: Final[dict[str, Any]] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}


def jars() -> str:
    """Apache Avro's class path, fetched on first use."""
    folder = maven_jars(
        f"avro-{AVRO_VERSION}", f"Apache Avro {AVRO_VERSION}", [("org.apache.avro", "avro", AVRO_VERSION)]
    )
    return f"{folder}/*"


class _Maker:
    """Makes one schema. A name is defined once and may be used afterwards."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._free = list(NAMES)
        self._defined: list[str] = []
        chance.shuffle(self._free)

    def schema(self, depth: int = 0) -> Any:
        """A type."""
        chance = self._chance
        kind = chance.choice(("primitive", "primitive", "record", "record", "enum", "fixed", "array", "map", "union"))
        if depth > 3 or kind == "primitive":
            return chance.choice(self._defined) if self._defined and chance.random() < 0.3 else chance.choice(PRIMITIVE)
        if kind == "array":
            return {"type": "array", "items": self.schema(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth + 1)}
        if kind == "union":
            return self._union(depth)
        if not self._free:
            return chance.choice(PRIMITIVE)
        name = self._free.pop()
        self._defined.append(name)
        made: dict[str, Any] = {"type": kind, "name": name}
        if chance.random() < 0.2:
            made["aliases"] = [chance.choice(NAMES)]
        if kind == "fixed":
            made["size"] = chance.choice((1, 2, 16))
        elif kind == "enum":
            made["symbols"] = chance.sample(SYMBOLS, chance.randint(1, 4))
            if chance.random() < 0.4:
                made["default"] = made["symbols"][0]
        else:
            made["fields"] = [self._field(each, depth) for each in chance.sample(FIELDS, chance.randint(0, 4))]
        return made

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        made = {"name": name, "type": self.schema(depth + 1)}
        kind = made["type"]
        first = kind[0] if isinstance(kind, list) and kind else kind
        if isinstance(first, str) and first in _DEFAULTS and self._chance.random() < 0.5:
            made["default"] = _DEFAULTS[first]
        if self._chance.random() < 0.1:
            made["aliases"] = [self._chance.choice(FIELDS)]
        return made

    def _union(self, depth: int) -> list[Any]:
        branches: list[Any] = self._chance.sample(PRIMITIVE, self._chance.randint(0, 3))
        if self._chance.random() < 0.5:
            inner = self.schema(depth + 1)
            if not isinstance(inner, list) and inner not in branches:
                branches.insert(self._chance.randint(0, len(branches)), inner)
        return branches


def _types(schema: Any) -> Iterator[dict[str, Any]]:
    """All types within one that have an object of their own."""
    if isinstance(schema, list):
        for each in schema:
            yield from _types(each)
    elif isinstance(schema, dict):
        yield schema
        for part in (schema.get("items"), schema.get("values"), *(each["type"] for each in schema.get("fields", ()))):
            yield from _types(part)


def _is_in_order(schema: Any) -> bool:
    """Whether each name is defined once, and before it is used."""
    defined: list[str] = []
    wanted: list[str] = []

    def walk(part: Any) -> None:
        if isinstance(part, str) and part not in PRIMITIVE:
            wanted.extend([part] if part not in defined else [])
        elif isinstance(part, list):
            for each in part:
                walk(each)
        elif isinstance(part, dict):
            defined.extend([part["name"]] if "name" in part else [])
            for each in (part.get("items"), part.get("values"), *(one["type"] for one in part.get("fields", ()))):
                walk(each)

    walk(schema)
    return len(set(defined)) == len(defined) and not set(wanted) & set(defined)


def _change(schema: Any, chance: random.Random) -> Any:
    """Change something in a schema, in place where that can be."""
    found = list(_types(schema))
    if not found or chance.random() < 0.1:
        return [schema, "null"] if chance.random() < 0.5 and not isinstance(schema, list) else chance.choice(PRIMITIVE)
    each = chance.choice(found)
    if each["type"] == "record":
        _change_record(each, chance)
    elif each["type"] == "enum":
        each["symbols"] = chance.sample(SYMBOLS, chance.randint(1, 4))
        each.pop("default", None)
        if chance.random() < 0.5:
            each["default"] = each["symbols"][-1]
    elif each["type"] == "fixed":
        each["size"] = chance.choice((1, 2, 16))
    else:
        each["items" if each["type"] == "array" else "values"] = chance.choice(PRIMITIVE)
    if "name" in each and chance.random() < 0.2:
        each["name"] = chance.choice(NAMES)
    return schema


def _change_record(record: dict[str, Any], chance: random.Random) -> None:
    fields = record["fields"]
    if fields and chance.random() < 0.4:
        fields.remove(chance.choice(fields))
    elif fields and chance.random() < 0.5:
        field = chance.choice(fields)
        field["type"] = chance.choice(PRIMITIVE)
        field.pop("default", None)
    free = [name for name in FIELDS if all(name != each["name"] for each in fields)]
    if free and chance.random() < 0.5:
        kind = chance.choice(PRIMITIVE)
        made = {"name": chance.choice(free), "type": kind}
        if chance.random() < 0.5:
            made["default"] = _DEFAULTS[kind]
        fields.append(made)


class Case:
    """A reader's and a writer's schema."""

    def __init__(self, chance: random.Random) -> None:
        writer = _Maker(chance).schema()
        reader = _Maker(chance).schema() if chance.random() < 0.2 else copy.deepcopy(writer)
        for _ in range(chance.randrange(5)):
            changed = _change(copy.deepcopy(reader), chance)
            reader = changed if _is_in_order(changed) else reader
        self.reader, self.writer = json.dumps(reader), json.dumps(writer)

    def question(self) -> str:
        """The line that asks Java."""
        return json.dumps([self.reader, self.writer])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        try:
            reader, writer = parse(self.reader), parse(self.writer)
        except SchemaError:
            return "?"
        try:
            found = {each.kind for each in reader.incompatibilities(writer)}
        except SchemaError:
            return "!"
        return ",".join(sorted(found)) or "+"


def _counts(answer: str) -> dict[str, int]:
    return {{"+": "compatible", "?": "no schema", "!": "not comparable"}.get(answer, "incompatible"): 1}


CAMPAIGN: Final = OracleCampaign(
    "schemas.avro_compatibility", __doc__, SOURCE, Case, _counts, "schemas", judge="Avro", jars=jars
)
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
