"""What executors run for `from_avro` and `to_avro`, and Spark's types of schemas."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from kwire.arrow.payloads.columns import shape_of
from kwire.cli.connection.errors import CommandError
from kwire.cli.schemas.client import RegistryClient
from kwire.cli.schemas.lookup import SchemaLookup
from kwire.schemas import parse, wire
from kwire.spark.avro import functions
from kwire.spark.avro.functions import FAILFAST, PERMISSIVE
from kwire.spark.avro.types import spark_type

MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)
UID = "00000000-0000-0000-0000-000000000005"
CARD = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]}
PROPERTIES = (("schema.registry.url", "http://memory"),)


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


OLD = [field("id", "int"), field("gone", "string")]
NEW = [
    field("id", "long"),
    field("at", logical("long", "timestamp-millis"), default=0),
    field("nanos", logical("long", "timestamp-nanos"), default=0),
    field("local", logical("long", "local-timestamp-micros"), default=0),
    field("day", logical("int", "date"), default=0),
    field("clock", logical("int", "time-millis"), default=0),
    field("amount", logical("bytes", "decimal", precision=9, scale=2), default="\u0000"),
    field("uid", ["null", logical("string", "uuid")], default=None),
    field("tags", {"type": "map", "values": logical("int", "date")}, default={}),
    field("cards", {"type": "array", "items": CARD}, default=[]),
    field("paid", ["null", "string", "int", "Card"], default=None),
]
TEXTS = {
    number: json.dumps({"type": "record", "name": "Order", "fields": fields}) for number, fields in ((1, OLD), (2, NEW))
}
VALUE = {
    "id": 7, "at": MOMENT, "nanos": MOMENT, "local": MOMENT.replace(tzinfo=None), "day": date(2024, 1, 2),
    "clock": 5_000_000, "amount": Decimal("12.34"), "uid": UID, "tags": {"a": date(1970, 1, 2)},
    "cards": [{"number": "4"}], "paid": {"string": None, "int": None, "Card": {"number": "5"}},
}  # fmt: skip


class MemoryRegistry(RegistryClient):
    """What a registry answers, without one."""

    def __init__(self) -> None:
        super().__init__("http://memory", {}, 1)

    def get(self, *path: str, query: str = "") -> Any:
        if int(path[2]) not in TEXTS:
            raise CommandError("not found", 40403)
        return {"schema": TEXTS[int(path[2])]}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(functions._lookups, PROPERTIES, SchemaLookup(MemoryRegistry()))
    yield


def as_rows(value: Any) -> Any:
    """As Spark gives structs to functions in Python."""
    if isinstance(value, Mapping) and set(value) != {"a"}:
        return Row(**{name: as_rows(each) for name, each in value.items()})
    return [as_rows(each) for each in value] if isinstance(value, list) else value


def test_values_go_there_and_back() -> None:
    encode = pickle.loads(pickle.dumps(functions._Encoding(PROPERTIES, 2)))
    decode = pickle.loads(pickle.dumps(functions._Decoding(PROPERTIES, 2, FAILFAST)))
    payload = encode(as_rows(VALUE))
    assert payload[:5] == b"\0\0\0\0\x02"
    decoded = decode(bytearray(payload))
    assert {**decoded, "paid": {**VALUE["paid"], **decoded["paid"]}} == VALUE  # type: ignore[dict-item]
    assert encode(None) is decode(None) is None


def test_older_records_are_read_with_defaults() -> None:
    decode = functions._Decoding(PROPERTIES, 2, FAILFAST)
    old = decode(wire.frame(1, parse(TEXTS[1]).encode({"id": 1, "gone": "x"})))
    assert (old["id"], old["at"], old["amount"], old["paid"]) == (
        1,
        datetime(1970, 1, 1, tzinfo=UTC),
        Decimal("0.00"),
        None,
    )


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"x", "no schema id"),
        (wire.frame(9, b"x"), "the registry has no schema 9"),
        (wire.frame(2, b"\x02"), "do not fit the Avro schema"),
    ],
)
def test_what_does_not_fit_fails_or_is_null(payload: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        functions._Decoding(PROPERTIES, 2, FAILFAST)(payload)
    assert functions._Decoding(PROPERTIES, 2, PERMISSIVE)(payload) is None


def test_a_row_that_does_not_fit_is_refused() -> None:
    encode = functions._Encoding(PROPERTIES, 2)
    paid = Row(string="x", Card=Row(number="4"))
    for value, reason in ((Row(id="x"), "does not fit"), (7, "a struct"), (Row(id=1, paid=paid), "has one value")):
        with pytest.raises(ValueError, match=reason):
            encode(value)


def test_schemas_have_types_of_spark() -> None:
    found = spark_type(shape_of(parse(TEXTS[2])).field).simpleString()
    assert found == (
        "struct<id:bigint,at:timestamp,nanos:timestamp,local:timestamp_ntz,day:date,clock:bigint,amount:decimal(9,2),"
        "uid:string,tags:map<string,date>,cards:array<struct<number:string>>,"
        "paid:struct<string:string,int:int,Card:struct<number:string>>>"
    )


@pytest.mark.parametrize(
    ("registry", "reason"),
    [
        ({}, "schema.registry.url is missing"),
        ({"schema.registry.url": "http://x", "ssl.ca.location": "/none"}, "/none: No"),
    ],
)
def test_a_registry_is_named(registry: Mapping[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        functions._properties(registry)
