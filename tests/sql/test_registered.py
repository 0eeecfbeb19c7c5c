"""Statements over topics in memory whose records follow schemas of a registry in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kwire.cli.connection.errors import CommandError
from kwire.cli.schemas.client import RegistryClient
from kwire.cli.schemas.lookup import SchemaLookup
from kwire.schemas import parse, wire
from kwire.sql.results.texts import Column, Texts
from kwire.sql.session import Session
from kwire.sql.topics.columns import Kind
from kwire.sql.topics.forms import Forms
from tests.sql.memory import MemoryTopics, Record, session


def avro(*fields: Mapping[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


ID: Mapping[str, Any] = {"name": "id", "type": "long"}
UUID_ = "00000000-0000-0000-0000-00000000000"
FIRST = avro(ID, {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}}, {"name": "f", "type": "double"})
WIDER = avro(*json.loads(FIRST)["fields"], {"name": "region", "type": "string", "default": "eu"})
PROTO = 'syntax = "proto3"; message A { int32 n = 1; } message B { string s = 1; }'
TEXTS = {1: FIRST, 2: WIDER, 3: avro(ID, name="Key"), 4: PROTO, 5: avro(ID, name="Other")}
SUBJECTS = {
    "orders-value": [1, 2],
    "orders-key": [3],
    "protos-value": [4],
    "Order": [1],
    "Other": [5],
    "empty-value": [2],
    "spoilt-value": [1],
}
UNKNOWN = {"ids": 40403, "subjects": 40401}


class MemoryRegistry(RegistryClient):
    """What a registry answers, without one. ``calls`` counts requests."""

    def __init__(self) -> None:
        super().__init__("http://memory", {}, 1)
        self.calls = 0
        self.failure: CommandError | None = None

    def get(self, *path: str, query: str = "") -> Any:
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        if path[0] == "schemas" and int(path[2]) in TEXTS:
            id = int(path[2])
            if path[3:] == ("versions",):
                return [{"subject": name, "version": ids.index(id) + 1} for name, ids in SUBJECTS.items() if id in ids]
            return {"schema": TEXTS[id], "schemaType": "PROTOBUF" if "proto3" in TEXTS[id] else "AVRO"}
        if path[0] == "subjects" and path[1] in SUBJECTS:
            ids = SUBJECTS[path[1]]
            return {"version": len(ids), "id": ids[-1]}
        raise CommandError("not found", UNKNOWN[path[1] if path[0] == "schemas" else "subjects"])


def encoded(id: int, value: Any, *indexes: int) -> bytes:
    schema = parse(TEXTS[id], "PROTOBUF" if "proto3" in TEXTS[id] else "AVRO")
    return wire.frame(id, schema.encode(value, indexes) if indexes else schema.encode(value))  # type: ignore[call-arg]


def order(number: int, region: str | None = None) -> bytes:
    value = {"id": number, "uid": f"{UUID_}{number % 10}", "f": number / 2}
    return encoded(1, value) if region is None else encoded(2, {**value, "region": region})


TOPICS: dict[str, dict[int, list[Record]]] = {
    "orders": {
        0: [
            *(Record(order(n), encoded(3, {"id": n})) for n in range(100)),
            *(Record(order(n, "us"), encoded(3, {"id": n})) for n in range(100, 200)),
            Record(None, encoded(3, {"id": 5})),
        ]
    },
    "late": {0: [*[Record(order(1))] * 600, Record(b"\0\0\0\0\x63?"), Record(b"x"), *[Record(order(2))] * 600]},
    "spoilt": {0: [*[Record(order(1))] * 3, Record(b"x"), Record(b"\0\0\0\0\x63?")]},
    "stray": {0: [*[Record(order(1))] * 3, Record(b"x")]},
    "mixed": {0: [Record(encoded(1, {"id": 1, "uid": UUID_ + "1", "f": 0})), Record(encoded(5, {"id": 2}))]},
    "protos": {0: [Record(encoded(4, {"s": "x"}, 1))]},
    "chance": {0: [Record(b"\0\0\0\0\x63 nothing of a serializer")]},
    "plain": {0: [Record(b'{"a": 1}')]},
    "empty": {0: []},
    "nan": {0: [Record(encoded(1, {"id": 1, "uid": UUID_ + "1", "f": float("nan")}))]},
}


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def opened(registry: MemoryRegistry, tmp_path: Path) -> Session:
    return opened_with(registry, tmp_path)


def opened_with(registry: MemoryRegistry, folder: Path, **values: Kind) -> Session:
    return session(MemoryTopics(TOPICS), folder, forms=Forms({}, values, SchemaLookup(registry)))


def rows(opened: Session, text: str) -> list[tuple[Any, ...]]:
    (statement,) = opened.statements(text)
    relation = opened.run(statement)
    return [] if relation is None else relation.fetchall()


def value_type(opened: Session, topic: str, column: str = "value") -> str:
    return {str(row[0]): str(row[1]) for row in rows(opened, f'describe "{topic}"')}[column]


def test_columns_have_the_types_of_the_latest_schema(opened: Session, registry: MemoryRegistry) -> None:
    assert value_type(opened, "orders") == "STRUCT(id BIGINT, uid UUID, f DOUBLE, region VARCHAR)"
    assert value_type(opened, "orders", "key") == "STRUCT(id BIGINT)"
    counted = (
        "select value.region, count(*), sum(value.id)::bigint from orders where value is not null group by 1 order by 1"
    )
    assert rows(opened, counted) == [("eu", 100, 4950), ("us", 100, 14950)]
    assert rows(opened, "select count(*), count(value), count(value_bytes) from orders") == [(201, 200, 200)]
    assert [each.misfits["value"].misfits for each in opened.scans] == [0]
    calls = registry.calls
    assert rows(opened, "select max(value.id) from orders") == [(199,)]
    assert registry.calls == calls


def test_conditions_are_about_fields(opened: Session) -> None:
    assert rows(opened, "select key.id from orders where value.region = 'us' and value.id < 102 order by 1") == [
        (100,),
        (101,),
    ]
    assert rows(opened, f"select count(*) from orders where value.uid = '{UUID_}7'") == [(20,)]
    assert rows(opened, 'select count(*) from orders where value.f > 98 and "offset" < 198') == [(1,)]
    assert opened.scans[0].counts.offsets == 198
    assert rows(opened, "select key.id from orders where value is null") == [(5,)]


def test_what_does_not_fit_is_null_and_counted(opened: Session) -> None:
    assert rows(opened, "select count(*), count(value), count(value_bytes) from late") == [(1202, 1200, 1202)]
    (scan,) = opened.scans
    assert scan.misfits["value"].note("late", "value") == (
        "2 values not as the schema says, read as NULL (value_bytes has what is there), the first: "
        "the registry has no schema 99"
    )


def test_a_sample_without_a_schema_does_not_fit_where_the_topic_has_a_subject(opened: Session) -> None:
    assert value_type(opened, "spoilt").startswith("STRUCT(id BIGINT")
    assert rows(opened, "select count(*), count(value.id) from spoilt") == [(5, 3)]
    assert opened.scans[0].misfits["value"].misfits == 2
    assert value_type(opened, "stray") == "BLOB", "its records have schemas of other subjects"


def test_topics_without_one_schema_are_json_or_as_they_are(opened: Session) -> None:
    kinds = {each: value_type(opened, each) for each in ("mixed", "protos", "chance", "plain", "empty")}
    assert kinds == {
        "mixed": "JSON",
        "protos": "STRUCT(s VARCHAR)",
        "chance": "VARCHAR",
        "plain": "JSON",
        "empty": value_type(opened, "orders"),
    }
    assert rows(opened, "select (value->>'id')::int from mixed order by 1") == [(1,), (2,)]
    assert rows(opened, "select value.s from protos") == [("x",)]


def test_a_type_that_is_chosen_wins(registry: MemoryRegistry, tmp_path: Path) -> None:
    opened = opened_with(registry, tmp_path, orders="json", late="blob", plain="json")
    assert [value_type(opened, each) for each in ("orders", "late", "plain")] == ["JSON", "BLOB", "JSON"]
    assert rows(opened, "select (value->>'id')::int from orders where value->>'region' = 'us' limit 1") == [(100,)]


def test_a_registry_that_is_away_ends_the_query(opened: Session, registry: MemoryRegistry) -> None:
    registry.failure = CommandError("registry http://memory: Connection refused")
    with pytest.raises(CommandError, match="Connection refused"):
        rows(opened, "from orders")


def test_a_number_that_json_has_not_is_null(opened: Session) -> None:
    (statement,) = opened.statements("select value, 'a \"NaN\" b' as text from nan")
    relation = opened.run(statement)
    assert relation is not None
    columns = [Column(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
    (text,) = Texts(opened.connection, columns, "UTC").objects(relation.to_arrow_table().to_batches()[0])
    assert json.loads(text) == {"value": {"id": 1, "uid": UUID_ + "1", "f": None}, "text": 'a "NaN" b'}
