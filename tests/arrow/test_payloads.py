"""Payloads by their schemas: Arrow's types and values, of the writer's own schema and of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from kwire.arrow.payloads.columns import PayloadColumn, shape_of
from kwire.arrow.payloads.shapes import JsonShape, NoShape, Shape
from kwire.schemas import Schema, SchemaError, parse, wire
from kwire.schemas.protobuf.schema import ProtobufSchema

CARD = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]}
MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)


def record(*fields: Mapping[str, Any], name: str = "Order") -> Schema:
    return parse(json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields}))


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def document(**properties: Any) -> Schema:
    return parse(json.dumps({"type": "object", "properties": properties}), "JSON")


class Read:
    """Values that writers' schemas have encoded, in a reader's shape."""

    def __init__(self, reader: Schema | Shape, *written: tuple[Schema, Any] | bytes | None) -> None:
        schemas: dict[int, Schema] = {}
        payloads: list[bytes | None] = []
        for each in written:
            if isinstance(each, tuple):
                writer, value = each
                schemas[len(payloads)] = writer
                body = value if isinstance(value, bytes) else writer.encode(value)
                each = wire.frame(len(payloads), body)
            payloads.append(each)

        def lookup(id: int) -> Schema:
            if id not in schemas:
                raise SchemaError(f"the registry has no schema {id}")
            return schemas[id]

        shape = reader if isinstance(reader, Shape) else shape_of(reader)
        self.column = PayloadColumn(shape, lookup)
        self.array = self.column.typed(pa.array(payloads, pa.binary()))
        self.values = self.array.to_pylist()
        self.reason = self.column.first_misfit


def test_avro_has_arrow_types() -> None:
    schema = record(
        field("id", "long"),
        field("at", logical("long", "timestamp-millis")),
        field("local", logical("long", "local-timestamp-micros")),
        field("day", logical("int", "date")),
        field("clock", logical("int", "time-millis")),
        field("amount", logical("bytes", "decimal", precision=9, scale=2)),
        field("uid", ["null", logical("string", "uuid")]),
        field("kind", ["null", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}]),
        field("tags", {"type": "map", "values": "int"}),
        field("cards", {"type": "array", "items": CARD}),
        field("paid", ["null", "string", "int", "Card"]),
        field("nothing", {"type": "record", "name": "Empty", "fields": []}),
    )
    value = {
        "id": 2**40, "at": MOMENT, "local": MOMENT.replace(tzinfo=None), "day": date(2024, 1, 2),
        "clock": time(1, 2, 3),
        "amount": Decimal("-12.34"), "uid": UUID(int=5), "kind": "B", "tags": {"a": 1}, "cards": [{"number": "4"}],
        "paid": {"number": "5"}, "nothing": {},
    }  # fmt: skip
    other = {**value, "uid": None, "kind": None, "paid": 7, "cards": []}
    found = Read(schema, (schema, value), None, (schema, other), (schema, {**value, "paid": "cash"}))
    assert found.column.misfits == 0
    nobody = {"string": None, "int": None, "Card": None}
    assert found.values[0] == {
        **value, "uid": UUID(int=5).bytes, "tags": [("a", 1)], "paid": {**nobody, "Card": {"number": "5"}},
        "nothing": "{}",
    }  # fmt: skip
    assert found.values[1] is None
    assert (found.values[2]["uid"], found.values[2]["kind"]) == (None, None)
    assert [each["paid"] for each in found.values[2:]] == [{**nobody, "int": 7}, {**nobody, "string": "cash"}]
    assert found.array.type.field("uid").metadata[b"ARROW:extension:name"] == b"arrow.uuid"
    assert found.array.type.field("amount").type == pa.decimal128(9, 2)


def test_other_avro_schemas_are_read_by_the_rules_of_resolution() -> None:
    reader = record(
        field("id", "double"),
        field("name", "string", aliases=["title"]),
        field("state", {"type": "enum", "name": "State", "symbols": ["NEW", "ELSE"], "default": "ELSE"}),
        field("amount", logical("bytes", "decimal", precision=4, scale=2), default="\u0001\u0002"),
        field("paid", ["null", CARD, "string"], default=None),
        field("since", ["null", logical("long", "timestamp-millis")]),
        field("extra", CARD | {"name": "Extra"}, default={"number": "0"}),
    )
    state = {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}
    writer = record(
        field("title", "string"),
        field("gone", "long"),
        field("id", "int"),
        field("state", state),
        field("since", "long"),
    )
    value = {"title": "t", "gone": 1, "id": 7, "state": "OLD", "since": 1000}
    assert Read(reader, (writer, value)).values == [
        {
            "id": 7.0, "name": "t", "state": "ELSE", "amount": Decimal("2.58"), "paid": None,
            "since": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "extra": {"number": "0"},
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "value", "reason"),
    [
        (record(field("id", "string")), {"id": "x"}, "string cannot become int"),
        (record(field("id", ["null", "int"])), {"id": None}, "null cannot become int"),
        (record(field("no", "int")), {"no": 1}, "the field id was not written, and has no default"),
        (record(field("id", "int"), name="Other"), {"id": 1}, "the value is shop.Other, not shop.Order"),
        (record(field("id", "int")), b"\x02\x02", "1 bytes follow the Avro value"),
        (document(id={"type": "integer"}), {"id": 1}, "the value has a schema of JSON, the column one of Avro"),
    ],
)
def test_what_does_not_fit_avro_is_null(writer: Schema, value: Any, reason: str) -> None:
    own = record(field("id", "int"))
    found = Read(own, (own, {"id": 1}), (writer, value), (own, {"id": 2}))
    assert found.values == [{"id": 1}, None, {"id": 2}]
    assert (found.column.misfits, found.reason) == (1, reason)


def test_a_union_is_written_that_the_reader_has_not() -> None:
    writer, reader = record(field("id", ["null", "int", "string"])), record(field("id", ["null", "long"]))
    found = Read(reader, *((writer, {"id": each}) for each in (None, 7, "x")))
    assert found.values == [{"id": None}, {"id": 7}, None]
    assert found.reason == "string is none of the reader's types"


def test_numbers_beyond_a_type_are_null() -> None:
    schema = record(
        field("n", logical("bytes", "decimal", precision=3, scale=1)), field("t", logical("int", "time-millis"))
    )
    far = record(field("n", "bytes"), field("t", "int"))
    found = Read(
        schema, (far, {"n": b"\x7f\xff", "t": 0}), (far, {"n": b"\x01", "t": 90_000_000}), (far, {"n": b"\x01", "t": 5})
    )
    assert [each and each["n"] for each in found.values] == [None, None, Decimal("0.1")]
    assert found.column.misfits == 2


@pytest.mark.parametrize(
    "schema",
    [
        record(field("next", ["null", "Order"])),
        record(field("a", "int"), field("A", "int")),
        record(field("a", [logical("int", "date"), logical("long", "timestamp-millis")])),
        parse('syntax = "proto3"; message Node { Node next = 1; }', "PROTOBUF"),
    ],
)
def test_schemas_without_a_type_are_json(schema: Schema) -> None:
    with pytest.raises(NoShape):
        shape_of(schema)


def test_a_part_of_a_column_is_read() -> None:
    schema = record(field("id", "int"))
    payloads = [None if n % 3 == 0 else wire.frame(1, schema.encode({"id": n * 1000})) for n in range(10)]
    column = PayloadColumn(shape_of(schema), lambda id: schema)
    found = column.typed(pa.array([b"long before", *payloads, b"after"], pa.binary()).slice(2, 6))
    assert found.to_pylist() == [{"id": 1000}, {"id": 2000}, None, {"id": 4000}, {"id": 5000}, None]
    assert column.typed(pa.array([], pa.binary())).to_pylist() == []
    assert column.typed(pa.array([None], pa.binary())).to_pylist() == [None]


def test_json_takes_any_schema() -> None:
    list_ = record(field("next", ["null", "Order"]))
    found = Read(JsonShape(), (list_, {"next": {"next": None}}), (document(), {"a": 1}), b"\0\0\0\0\x09x")
    assert found.values == ['{"next":{"next":null}}', '{"a":1}', None]
    assert found.reason == "the registry has no schema 9"


def test_a_schema_of_a_thousand_million_fields_is_json() -> None:
    inner: Any = {"type": "record", "name": "R0", "fields": [field("n", "int")]}
    for number in range(1, 31):
        inner = {"type": "record", "name": f"R{number}", "fields": [field("a", inner), field("b", f"R{number - 1}")]}
    with pytest.raises(NoShape, match="more than 10000 fields"):
        shape_of(parse(json.dumps(inner)))


def test_json_schema_has_arrow_types() -> None:
    schema = document(
        id={"type": "integer"},
        price={"type": "number"},
        at={"type": "string", "format": "date-time"},
        day={"type": ["string", "null"], "format": "date"},
        uid={"type": "string", "format": "uuid"},
        kind={"enum": ["a", "b"]},
        tags={"type": "object", "additionalProperties": {"type": "integer"}},
        lines={"type": "array", "items": {"$ref": "#/properties/line"}},
        line={"type": "object", "properties": {"n": {"type": "integer"}, "more": {"$ref": "#/properties/line"}}},
        any={},
        maybe={"oneOf": [{"type": "null"}, {"type": "boolean"}]},
    )
    line = {"n": 1, "more": {"n": 2}}
    value = {
        "id": 3.0, "price": 1, "at": "2024-01-02T03:04:05.678Z", "day": "2024-01-02", "uid": str(UUID(int=5)),
        "kind": "a", "tags": {"x": 1}, "lines": [line], "any": [1, "ä"], "maybe": True, "unknown": 1,
    }  # fmt: skip
    found = Read(schema, (schema, json.dumps(value).encode()), (schema, b"{}"), (schema, b"null"))
    assert found.column.misfits == 0
    assert found.values[0] == {
        "id": 3, "price": 1.0, "at": MOMENT, "day": date(2024, 1, 2), "uid": UUID(int=5).bytes, "kind": "a",
        "tags": [("x", 1)], "lines": [{"n": 1, "more": '{"n":2}'}], "line": None, "any": '[1,"ä"]', "maybe": True,
    }  # fmt: skip
    assert set(found.values[1].values()) == {None}
    assert found.values[2] is None


@pytest.mark.parametrize(
    ("property", "value"),
    [
        ({"type": "integer"}, 1.5),
        ({"type": "integer"}, 2**63),
        ({"type": "integer"}, True),
        ({"type": "number"}, "1"),
        ({"type": "boolean"}, 0),
        ({"type": "string"}, 1),
        ({"type": "string", "format": "date-time"}, "soon"),
        ({"type": "string", "format": "uuid"}, "12"),
        ({"type": "array", "items": {"type": "string"}}, "ab"),
        ({"type": "object", "properties": {"a": {}}}, []),
    ],
)
def test_what_does_not_fit_json_schema_is_null(property: Any, value: Any) -> None:
    schema = document(p=property)
    found = Read(schema, (schema, json.dumps({"p": value}).encode()))
    assert (found.values, found.column.misfits) == ([None], 1)


FILE = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/type/date.proto"; import "confluent/type/decimal.proto";
message Order {
  int64 id = 1; optional string note = 2; repeated Line lines = 3; map<string, uint32> tags = 4; Kind kind = 5;
  oneof paid { string cash = 6; Card card = 7; }
  google.protobuf.Timestamp at = 8; google.protobuf.StringValue maybe = 9; google.protobuf.Struct any = 10;
  google.type.Date day = 11; confluent.type.Decimal amount = 12; uint64 large = 13; bytes raw = 14;
  message Line { int32 n = 1; }
}
message Card { string number = 1; }
message Empty {}
enum Kind { NONE = 0; SOME = 1; }
"""


def test_protobuf_has_arrow_types() -> None:
    schema = parse(FILE, "PROTOBUF")
    value = {
        "id": 7, "lines": [{"n": 1}], "tags": {"x": 1}, "kind": "SOME", "card": {"number": "4"},
        "at": MOMENT.isoformat(),
        "maybe": "", "any": {"a": [1]}, "day": {"year": 2024, "month": 1, "day": 2},
        "amount": {"value": "BNI=", "scale": 2}, "large": 2**64 - 1, "raw": "/w==",
    }  # fmt: skip
    found = Read(schema, (schema, value), (schema, {"kind": 9}))
    assert found.column.misfits == 0
    assert found.values[0] == {
        "id": 7, "note": None, "lines": [{"n": 1}], "tags": [("x", 1)], "kind": "SOME", "cash": None,
        "card": {"number": "4"}, "at": MOMENT, "maybe": "", "any": '{"a":[1.0]}', "day": date(2024, 1, 2),
        "amount": "12.34", "large": 2**64 - 1, "raw": b"\xff",
    }  # fmt: skip
    assert (found.values[1]["id"], found.values[1]["kind"], found.values[1]["at"]) == (0, "9", None)


def test_a_message_is_read_by_its_name() -> None:
    schema = parse(FILE, "PROTOBUF")
    assert isinstance(schema, ProtobufSchema)
    card = schema.encode({"number": "4"}, (1,))
    moved = parse('syntax = "proto3"; package shop; message Card { int32 other = 2; string n = 1; }', "PROTOBUF")
    found = Read(
        shape_of(schema, "shop.Card"), (schema, card), (moved, {"n": "5"}), (schema, {"id": 1}), (schema, b"\x02")
    )
    assert found.values == [{"number": "4"}, {"number": "5"}, None, None]
    assert found.reason == "the value is a message shop.Order, not shop.Card"
    with pytest.raises(NoShape):
        shape_of(schema, "shop.Nothing")
