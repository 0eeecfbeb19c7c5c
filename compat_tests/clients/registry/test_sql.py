"""`kwire sql --registry`: records of real serializers as typed columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat_tests.clients.registry.conftest import Start
from harness.processes.brokers import Broker
from harness.registries.process import Registry
from kwire.cli import main
from kwire.schemas import parse, wire
from kwire.schemas.protobuf.schema import ProtobufSchema

CARD = '{"type":"record","name":"Card","fields":[{"name":"number","type":"string"}]}'
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
        {"name": "cards", "type": {"type": "array", "items": "Card"}},
        {"name": "note", "type": ["null", "string"]},
    ],
}
REGION = {"name": "region", "type": "string", "default": "eu"}
SECOND = {**FIRST, "fields": [*FIRST["fields"], REGION]}
DOCUMENT = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}, "more": {}},
}
MESSAGE = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { message Line { int32 n = 1; } int64 id = 1; repeated Line lines = 2; google.protobuf.Timestamp at = 3; }
"""
REFERENCE = {"name": "Card", "subject": "card", "version": 1}
MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)
ORDER: dict[str, Any] = {
    "id": UUID(int=5), "amount": Decimal("12.34"), "at": MOMENT, "kind": "OLD", "tags": {"a": 1},
    "cards": [{"number": "4"}], "note": None,
}  # fmt: skip


class Topic:
    """A topic with records, and what queries of it print."""

    def __init__(self, name: str, broker: Broker, registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
        self.name = name
        self._broker = broker
        self._registry = registry
        self._capsys = capsys

    def write(self, *records: tuple[bytes | None, bytes | None]) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap})
        for key, value in records:
            producer.produce(self.name, key=key, value=value, partition=0)
        assert producer.flush(60) == 0

    def run(self, query: str, *options: str, url: str | None = None) -> tuple[int, str, str]:
        words = ["sql", "-b", self._broker.bootstrap, "--timeout", "60", "--registry", url or self._registry.url]
        status = main([*words, "-o", "json", *options, query.replace("TOPIC", f'"{self.name}"')])
        return status, *self._capsys.readouterr()

    def rows(self, query: str, *options: str) -> list[tuple[Any, ...]]:
        status, out, err = self.run(query, *options)
        assert (status, err) == (0, "")
        return [tuple(each.values()) for each in json.loads(out)]


@pytest.fixture
def orders(
    broker: Broker, registry: Registry, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> Topic:
    return Topic(make_topic(1), broker, registry, capsys)


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        yield made


def avro(
    client: SchemaRegistryClient, registry: Registry, topic: str
) -> tuple[Callable[[Any], bytes | None], Callable[[Any], bytes | None]]:
    """Serializers of the first and the second schema, which refer to a third one."""
    context = SerializationContext(topic, MessageField.VALUE)
    assert registry.call("POST", "/subjects/card/versions", {"schema": CARD}).status == 200
    ids = []
    for schema in (FIRST, SECOND):
        body = {"schema": json.dumps(schema), "references": [REFERENCE]}
        ids.append(registry.call("POST", f"/subjects/{topic}-value/versions", body).body["id"])
    settings = {"auto.register.schemas": False}
    first, second = (AvroSerializer(client, client.get_schema(id), conf=settings) for id in ids)
    return (lambda value: first(value, context)), (lambda value: second(value, context))


def test_avro(orders: Topic, client: SchemaRegistryClient, registry: Registry) -> None:
    first, second = avro(client, registry, orders.name)
    orders.write((b"a", first(ORDER)), (b"b", None), (b"c", second({**ORDER, "note": "x", "region": "us"})))
    assert orders.rows('select value.region, value.note, key from TOPIC order by "offset"') == [
        ("eu", None, "a"),
        (None, None, "b"),
        ("us", "x", "c"),
    ]
    assert orders.rows("select typeof(value) from TOPIC limit 1") == [
        (
            'STRUCT(id UUID, amount DECIMAL(9,2), "at" TIMESTAMP WITH TIME ZONE, kind VARCHAR, '
            "tags MAP(VARCHAR, BIGINT), cards STRUCT(number VARCHAR)[], note VARCHAR, region VARCHAR)",
        )
    ]
    assert orders.rows(
        "select value.id, value.amount * 2, epoch_ms(value.at), value.kind, value.tags['a'], value.cards[1].number "
        "from TOPIC where value.region = 'eu' and value.amount > 12"
    ) == [(str(UUID(int=5)), 24.68, int(MOMENT.timestamp() * 1000), "OLD", 1, "4")]
    assert orders.rows("select hex(value_bytes[:1]) from TOPIC where value.note = 'x'") == [("00",)]


def test_json_schema_and_protobuf(orders: Topic, client: SchemaRegistryClient, registry: Registry) -> None:
    schema = parse(MESSAGE, "PROTOBUF")
    assert isinstance(schema, ProtobufSchema)
    order = schema.message_class("shop.Order")
    key, value = (SerializationContext(orders.name, each) for each in (MessageField.KEY, MessageField.VALUE))
    document = JSONSerializer(json.dumps(DOCUMENT), client)
    message = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    made = order(id=2**40, lines=[{"n": 1}], at={"seconds": 5})
    orders.write((document({"id": 7, "day": "2024-01-02", "more": [1]}, key), message(made, value)))
    query = "select key.id, key.day, key.more, value.id, value.lines[1].n, epoch(value.at) from TOPIC"
    assert orders.rows(f"{query} where key.day > '2024-01-01'") == [(7, "2024-01-02", [1], 2**40, 1, 5.0)]


def test_rows_go_to_another_topic(
    orders: Topic, client: SchemaRegistryClient, registry: Registry, make_topic: Callable[..., str]
) -> None:
    first, _ = avro(client, registry, orders.name)
    orders.write((b"a", first(ORDER)))
    target = make_topic(1)
    done = orders.run("select key, to_json(value) as value from TOPIC", "-o", "table", "--to-topic", target)
    assert done == (0, f"1 row written to {target}\n", "")
    query = f"select value->>'kind', (value->>'amount')::decimal(9,2) from \"{target}\""
    assert orders.rows(query) == [("OLD", 12.34)]


def test_what_does_not_fit_is_counted(orders: Topic, client: SchemaRegistryClient, registry: Registry) -> None:
    first, _ = avro(client, registry, orders.name)
    good = first(ORDER)
    orders.write(*[(None, good)] * 600, (None, wire.frame(9999, b"x")), (None, b"text"), *[(None, good)] * 600)
    status, out, err = orders.run("select count(*), count(value), count(value_bytes) from TOPIC")
    assert (status, [tuple(each.values()) for each in json.loads(out)]) == (0, [(1202, 1200, 1202)])
    assert err == (
        f"kwire: {orders.name}: 2 values not as the schema says, read as NULL (value_bytes has what is there), the "
        "first: the registry has no schema 9999\n"
    )


def test_a_registry_that_cannot_be_asked_is_one_line(
    orders: Topic, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret\n")
    secured = start("--users", str(users))
    orders.write((None, wire.frame(1, b"x")))
    query = "select count(value) from TOPIC"
    away = orders.run(query, url="http://127.0.0.1:1")
    assert away == (1, "", "kwire: registry http://127.0.0.1:1: Connection refused\n")
    status, out, err = orders.run(query, url=secured.url)
    assert (status, out, err.count("\n")) == (1, "", 1) and "Unauthorized" in err
    assert orders.run(query, url="nowhere")[0] == 1
    monkeypatch.setenv("KWIRE_BASIC_AUTH_USER_INFO", "alice:secret")
    assert orders.run(query, url=secured.url)[0] == 0
