"""`kwire consume --registry`: payloads of real serializers as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from harness.processes.brokers import Broker
from harness.registries.process import Registry
from kwire.cli import main
from kwire.schemas import parse, wire

RECORD = """{"type":"record","name":"Order","fields":[
    {"name":"id","type":"long"}, {"name":"note","type":["null","string"]}, {"name":"raw","type":"bytes"}]}"""
DOCUMENT = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}}}'
LINE = 'syntax = "proto3"; message Line { int32 n = 1; }'
ORDER = 'syntax = "proto3"; import "line.proto"; message Order { repeated Line lines = 1; }'


def test_keys_and_values_are_decoded(
    broker: Broker, registry: Registry, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic, client = make_topic(1), SchemaRegistryClient({"url": registry.url})
    value, key = SerializationContext(topic, MessageField.VALUE), SerializationContext(topic, MessageField.KEY)
    avro = AvroSerializer(client, RECORD)({"id": 2**40, "note": "\u00e9", "raw": b"\xff"}, value)
    document = JSONSerializer(DOCUMENT, client)({"id": 7}, key)
    registry.call("POST", "/subjects/line/versions", {"schema": LINE, "schemaType": "PROTOBUF"})
    reference = {"name": "line.proto", "subject": "line", "version": 1}
    body = {"schema": ORDER, "schemaType": "PROTOBUF", "references": [reference]}
    id = registry.call("POST", "/subjects/order/versions", body).body["id"]
    protobuf = wire.frame(id, wire.join_indexes((0,), b"\x0a\x02\x08\x05"))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in (
        (document, avro),
        (None, protobuf),
        (b"plain", None),
        (b"k", wire.frame(9999, b"x")),
        (b"k", b"\0abcdX"),
    ):
        producer.produce(topic, key=each[0], value=each[1], partition=0)
    assert producer.flush(60) == 0
    words = ["consume", topic, "-b", broker.bootstrap, "--until-end", "--registry", registry.url, "--timeout", "60"]
    assert main([*words, "-o", "jsonl"]) == 0
    out, err = capsys.readouterr()
    records = [json.loads(line) for line in out.splitlines()]
    assert json.loads(records[0]["value"]) == {"id": 2**40, "note": "\u00e9", "raw": "/w=="}
    assert json.loads(records[0]["key"]) == {"id": 7}
    assert json.loads(records[1]["value"]) == {"lines": [{"n": 5}]}
    assert (records[2]["key"], records[2]["value"]) == ("plain", None)
    assert err.startswith(f"kwire: 2 payloads could not be decoded, the first: value at {topic}-0 offset 3: ")
    assert "no schema 9999" in err
    assert main([*words, "-f", "%v\\n", "--filter-json", "$.id>5"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 2**40


def test_a_registry_that_does_not_answer_ends_it(
    broker: Broker, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic(1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, wire.frame(1, parse('"int"').encode(5)))
    assert producer.flush(60) == 0
    words = ["consume", topic, "-b", broker.bootstrap, "--until-end", "--registry", "http://127.0.0.1:1"]
    assert main([*words, "--timeout", "60"]) == 1
    assert capsys.readouterr().err == "kwire: registry http://127.0.0.1:1: Connection refused\n"
