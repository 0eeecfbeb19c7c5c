"""confluent-kafka's client and serializers, with the registry."""

from __future__ import annotations

import pytest
from confluent_kafka.schema_registry import Metadata, MetadataProperties, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from harness.registries.process import Registry
from kwire.schemas import decode, parse

RECORD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}'
DOCUMENT = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}}}'
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def test_avro_goes_through(client: SchemaRegistryClient) -> None:
    payload = AvroSerializer(client, RECORD)({"id": 7}, CONTEXT)
    assert AvroDeserializer(client)(payload, CONTEXT) == {"id": 7}
    assert client.get_subjects() == ["orders-value"]
    assert payload is not None
    assert decode(payload, lambda id: parse(str(client.get_schema(id).schema_str))) == {"id": 7}


def test_json_schema_goes_through(client: SchemaRegistryClient) -> None:
    payload = JSONSerializer(DOCUMENT, client)({"id": 7}, CONTEXT)
    assert JSONDeserializer(DOCUMENT, schema_registry_client=client)(payload, CONTEXT) == {"id": 7}


def test_administration(client: SchemaRegistryClient) -> None:
    first = client.register_schema("a", Schema(RECORD, "AVRO"))
    assert client.lookup_schema("a", Schema(RECORD, "AVRO")).schema_id == first
    client.set_compatibility("a", "FULL")
    assert client.get_compatibility("a") == "FULL"
    assert not client.test_compatibility("a", Schema(RECORD.replace('"int"', '"string"'), "AVRO"))
    with pytest.raises(SchemaRegistryError) as error:
        client.register_schema("a", Schema(RECORD.replace('"int"', '"string"'), "AVRO"))
    assert (error.value.http_status_code, error.value.error_code) == (409, 409)
    assert client.delete_subject("a") == [1]
    assert client.delete_subject("a", permanent=True) == [1]


def test_a_version_is_found_by_its_metadata(client: SchemaRegistryClient) -> None:
    for number, owner in enumerate(("alice", "bob", "alice")):
        metadata = Metadata(None, MetadataProperties({"owner": owner, "number": str(number)}), None)
        client.register_schema("a", Schema(RECORD, "AVRO", metadata=metadata))
    assert client.get_latest_with_metadata("a", {"owner": "alice"}).version == 3
    assert client.get_latest_with_metadata("a", {"owner": "alice", "number": "0"}).version == 1
    for subject, wanted, code in (("a", {"owner": "carol"}, 40403), ("b", {"owner": "alice"}, 40401)):
        with pytest.raises(SchemaRegistryError) as error:
            client.get_latest_with_metadata(subject, wanted)
        assert error.value.error_code == code
