"""What may follow a schema, at each level and for each type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwire.schemas import LEVELS, SchemaError, check, parse


def avro(*fields: tuple[str, Any] | tuple[str, Any, Any]) -> str:
    made = [dict(zip(("name", "type", "default"), each, strict=False)) for each in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": made})


def message(*fields: str) -> str:
    return f'syntax = "proto3"; message Order {{ {" ".join(fields)} }}'


def packaged(name: str) -> str:
    return f'syntax = "proto3"; package {name}; message Order {{ .{name}.Order a = 1; }}'


def recursive(kind: str | list[str]) -> str:
    """An object or (``kind``) something else, which has itself in it."""
    return json.dumps({"type": kind, "properties": {"next": {"$ref": "#"}}, "additionalProperties": False})


def document(required: list[str], **properties: str) -> str:
    typed = {name: {"type": kind} for name, kind in properties.items()}
    return json.dumps({"type": "object", "properties": typed, "required": required, "additionalProperties": False})


BOTH = {"BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"}
READS_OLD = {"BACKWARD", "BACKWARD_TRANSITIVE", "NONE"}
IS_READ = {"FORWARD", "FORWARD_TRANSITIVE", "NONE"}
NOTHING = {"NONE"}


@pytest.mark.parametrize(
    ("type", "old", "new", "allowed"),
    [
        ("AVRO", avro(("a", "int")), avro(("a", "int"), ("b", "int", 0)), BOTH),
        ("AVRO", avro(("a", "int")), avro(("a", "int"), ("b", "int")), IS_READ),
        ("AVRO", avro(("a", "int"), ("b", "int")), avro(("a", "int")), READS_OLD),
        ("AVRO", avro(("a", "int")), avro(("a", "long")), READS_OLD),
        ("AVRO", avro(("a", "int")), avro(("a", ["null", "int"])), READS_OLD),
        ("AVRO", avro(("a", "int")), avro(("a", "string")), NOTHING),
        ("PROTOBUF", message("int32 a = 1;"), message("int32 a = 1;", "string b = 2;"), BOTH),
        ("PROTOBUF", message("int32 a = 1;"), message("string a = 1;"), NOTHING),
        ("PROTOBUF", packaged("a"), packaged("b"), BOTH),
        ("JSON", document([], a="integer"), document([], a="integer", b="string"), READS_OLD),
        ("JSON", document([], a="integer"), document(["a"], a="integer"), IS_READ),
        ("JSON", document([], a="integer"), document([], a="number"), READS_OLD),
        ("JSON", document([], a="integer"), document([], a="string"), NOTHING),
        ("JSON", '{"type": "string", "enum": ["a"]}', '{"type": "string"}', READS_OLD),
        ("JSON", '{"type": "string", "enum": ["a"]}', '{"type": "string", "enum": ["a", "b"]}', READS_OLD),
        ("JSON", '{"type": "string", "enum": ["a"]}', '{"type": "integer", "enum": ["a"]}', NOTHING),
        ("JSON", '{"type": "string", "not": {"maxLength": 1}}', '{"type": "string"}', READS_OLD),
        ("JSON", recursive("object"), recursive(["object", "null"]), READS_OLD),
    ],
)
def test_what_may_follow(type: str, old: str, new: str, allowed: set[str]) -> None:
    earlier = [parse(old, type)]
    assert {level for level in LEVELS if not check(level, parse(new, type), earlier)} == allowed


def test_a_transitive_level_looks_at_all_versions() -> None:
    versions = [parse(avro(("b", "string"))), parse(avro(("a", "int", 0)))]
    new = parse(avro(("a", "int", 0), ("b", "int", 0)))
    assert check("BACKWARD", new, versions) == []
    [finding] = check("BACKWARD_TRANSITIVE", new, versions)
    assert (finding.earlier, finding.forward, finding.reason.kind) == (0, False, "TYPE_MISMATCH")


def test_another_type_may_not_follow() -> None:
    [finding] = check("BACKWARD", parse(message("int32 a = 1;"), "PROTOBUF"), [parse(avro(("a", "int")))])
    assert finding.reason.kind == "SCHEMA_TYPE_CHANGED"


DEEP = '{"type":"array","items":' * 200 + '"int"' + "}" * 200


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("AVRO", "{"),
        ("AVRO", '{"type": "record", "name": "A"}'),
        ("AVRO", '"NoSuchType"'),
        ("AVRO", DEEP),
        ("AVRO", " " * 1_000_001),
        ("AVRO", '{"type": "string", "doc": "\\ud800"}'),
        ("AVRO", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "double", "default": 1e999}]}'),
        ("PROTOBUF", "message {"),
        ("PROTOBUF", 'syntax = "proto3"; import "nowhere.proto"; message A { B b = 1; }'),
        ("JSON", "{"),
        ("JSON", '{"type": "no such type"}'),
        ("JSON", '{"$ref": "#/definitions/none"}'),
        ("JSON", '{"$ref": "#"}'),
        ("JSON", '{"title": "\\udc00"}'),
        ("JSON", '{"maximum": 1e999}'),
        ("XML", "<a/>"),
    ],
)
def test_what_is_no_schema_is_refused_in_one_line(type: str, text: str) -> None:
    with pytest.raises(SchemaError) as error:
        parse(text, type)
    assert "\n" not in str(error.value)


def test_a_schema_that_contains_itself_is_compared() -> None:
    tree = json.dumps(
        {
            "type": "record",
            "name": "Tree",
            "fields": [{"name": "children", "type": {"type": "array", "items": "Tree"}}],
        }
    )
    assert check("FULL", parse(tree), [parse(tree)]) == []
    loop = '{"properties": {"child": {"$ref": "#"}}}'
    assert check("FULL", parse(loop, "JSON"), [parse(loop, "JSON")]) == []
