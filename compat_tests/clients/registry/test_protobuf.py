"""confluent-kafka's Protobuf serializer: files that import others, nested messages, well-known types."""

from __future__ import annotations

import json
from typing import Any, Final

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format

from compat_tests.clients.registry.messages import VALUES, classes
from harness.registries.process import Registry
from kwire.cli.records.columns import Columns
from kwire.cli.records.decoding import PayloadDecoder
from kwire.cli.schemas.client import RegistryClient
from kwire.cli.schemas.lookup import SchemaLookup

CONTEXT: Final = SerializationContext("orders", MessageField.VALUE)


def decoded(decoder: PayloadDecoder, payload: bytes) -> Any:
    """What `kwire consume` shows of a value."""
    columns = decoder.decoded(Columns("orders", 0, (0,), (0,), (None,), (payload,), {}, 1))
    return json.loads(columns.values[0] or b"null")


def test_messages_go_through_with_all_that_they_refer_to(registry: Registry) -> None:
    made = classes()
    client = SchemaRegistryClient({"url": registry.url})
    decoder = PayloadDecoder(SchemaLookup(RegistryClient(registry.url, {}, 60)))
    for name, (indexes, value) in VALUES.items():
        message = json_format.ParseDict(value, made[name]())
        payload = ProtobufSerializer(made[name], client, {"use.deprecated.format": False})(message, CONTEXT)
        assert payload is not None
        assert payload[5 : 5 + len(indexes)] == indexes, name
        fresh = SchemaRegistryClient({"url": registry.url})
        back = ProtobufDeserializer(made[name], {"use.deprecated.format": False}, fresh)(payload, CONTEXT)
        assert back == message, name
        assert decoded(decoder, payload) == value, name
    subjects = {"orders-value", "line.proto", "money.proto"}
    assert set(client.get_subjects()) == subjects
    latest = client.get_latest_version("orders-value")
    assert latest.version == 1
    assert sorted((each.name, each.subject, each.version) for each in latest.schema.references or []) == [
        ("line.proto", "line.proto", 1),
        ("money.proto", "money.proto", 1),
    ]
