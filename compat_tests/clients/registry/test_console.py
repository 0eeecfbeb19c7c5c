"""The console decodes messages by a registry."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from harness.console.asgi_client import AsgiClient
from harness.console.in_process import console
from harness.processes.brokers import Broker
from harness.registries.process import Registry
from kwire.schemas import parse, wire

RECORD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"raw","type":"bytes"}]}'
DOCUMENT = '{"title":"Key","type":"object","properties":{"id":{"type":"integer"}}}'
LINE = 'syntax = "proto3"; message Line { int32 n = 1; }'


@pytest.fixture
def written(broker: Broker, registry: Registry, make_topic: Callable[..., str]) -> str:
    """An order with a key of JSON Schema, text, a line of Protobuf, and a payload of an unknown schema."""
    topic = make_topic(1)
    key, value = (SerializationContext(topic, each) for each in (MessageField.KEY, MessageField.VALUE))
    with SchemaRegistryClient({"url": registry.url}) as client:
        order = AvroSerializer(client, RECORD)({"id": 7, "raw": b"\xff"}, value)
        own_key = JSONSerializer(DOCUMENT, client)({"id": 3}, key)
    body = {"schema": LINE, "schemaType": "PROTOBUF"}
    id = registry.call("POST", "/subjects/lines/versions", body).body["id"]
    line = wire.frame(id, parse(LINE, "PROTOBUF").encode({"n": 5}))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in ((own_key, order), (None, b"text"), (None, line), (None, wire.frame(9999, b"x"))):
        producer.produce(topic, key=each[0], value=each[1], partition=0)
    assert producer.flush(60) == 0
    return topic


@asynccontextmanager
async def opened(broker: Broker, url: str) -> Any:
    async with console(broker.bootstrap, timeout_s=60, properties={"schema.registry.url": url}) as client:
        yield client


async def found(client: AsgiClient, topic: str, query: str) -> list[Any]:
    messages, last = [], None
    async with client.events(f"/api/topics/{topic}/search?{query}") as events:
        async for event in events:
            if event.name == "message":
                messages.append(event.data)
            last = event
    assert last is not None
    assert last.name == "done", last
    return messages


async def test_messages_are_decoded_and_found(broker: Broker, registry: Registry, written: str) -> None:
    async with opened(broker, registry.url) as client:
        order, text, line, unknown = (await client.get(f"/api/topics/{written}/messages")).json()["messages"]
        assert (json.loads(order["key"]), json.loads(order["value"])) == ({"id": 3}, {"id": 7, "raw": "/w=="})
        schema = {"id": 2, "type": "AVRO", "subject": f"{written}-value", "version": 1}
        ids = {each["id"] for each in (order["key_schema"], order["value_schema"])}
        assert ids == {1, 2}
        assert {**order["value_schema"], "id": 2} == schema
        assert (text["value"], "value_schema" in text) == ("text", False)
        assert (json.loads(line["value"]), line["value_schema"]["subject"]) == ({"n": 5}, "lines")
        assert line["size"] == 5 + 1 + 2
        assert unknown["value_schema"] == {"id": 9999, "error": "the registry has no schema 9999"}
        raw = (await client.get(f"/api/topics/{written}/messages/0/2?decode=0")).json()
        assert "value_schema" not in raw
        whole = (await client.get(f"/api/topics/{written}/messages/0/2")).json()
        assert whole["value"] == line["value"]
        for query, offsets in (
            (f"json={quote('$.id>6')}", [0]),
            ("json=n%3D5", [2]),
            ("value=raw", [0]),
            ("value=text", [1]),
            ("key=id", [0]),
        ):
            assert [each["offset"] for each in await found(client, written, query)] == offsets, query


async def test_a_registry_that_is_away_leaves_messages_as_they_are(broker: Broker, written: str) -> None:
    async with opened(broker, "http://127.0.0.1:1") as client:
        order, text, *_ = (await client.get(f"/api/topics/{written}/messages")).json()["messages"]
        assert order["value_schema"]["error"] == "registry http://127.0.0.1:1: Connection refused"
        assert b64decode(order["value"]["base64"])[:1] == b"\0"
        assert text["value"] == "text"
