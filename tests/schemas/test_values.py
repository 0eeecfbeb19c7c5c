"""Values of payloads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwire.schemas import DecodeError, Schema, decode, jsonable, parse, wire

RECORD = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "raw", "type": "bytes"},
        ],
    }
)
MESSAGE = 'syntax = "proto3"; message Order { int64 id = 1; repeated string notes = 2; message Line { int32 n = 1; } }'


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        (parse(RECORD), {"id": 7, "note": None, "raw": b"\xff"}, {"id": 7, "note": None, "raw": "/w=="}),
        (parse('{"type": "object"}', "JSON"), {"a": [1, None]}, {"a": [1, None]}),
        (parse('"double"'), float("inf"), "Infinity"),
    ],
)
def test_values_come_back(schema: Schema, value: Any, shown: Any) -> None:
    payload = wire.frame(3, schema.encode(value))
    asked = []

    def lookup(schema_id: int) -> Schema:
        asked.append(schema_id)
        return schema

    found = decode(payload, lookup)
    assert found == value
    assert asked == [3]
    assert json.loads(json.dumps(jsonable(found))) == shown


def test_a_message_of_protobuf_is_decoded_by_its_indexes() -> None:
    schema = parse(MESSAGE, "PROTOBUF")
    order = wire.join_indexes((0,), b"\x08\x07\x12\x01x")
    line = wire.join_indexes((0, 0), b"\x08\x05")
    assert jsonable(schema.decode(order)) == {"id": "7", "notes": ["x"]}, "as in Protobuf's JSON"
    assert jsonable(schema.decode(line)) == {"n": 5}


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_payload_that_is_cut_off_is_refused(cut: int) -> None:
    schema = parse(RECORD)
    body = schema.encode({"id": 300, "note": "n", "raw": b"12"})
    with pytest.raises(DecodeError):
        schema.decode(body[:-cut])
