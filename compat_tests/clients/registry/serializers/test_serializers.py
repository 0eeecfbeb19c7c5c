"""What Java's serializers write is read by confluent-kafka's, and the other way round, through topics."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format

from compat_tests.clients.registry.conftest import USER, Secured
from compat_tests.clients.registry.messages import VALUES, classes, files
from compat_tests.clients.registry.serializers.jars import class_path
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.processes.brokers import Broker
from harness.processes.certificates import Certificates
from harness.registries.process import Registry

pytestmark = pytest.mark.java

RECORD: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "lines", "type": {"type": "array", "items": {
                "type": "record", "name": "Line", "fields": [
                    {"name": "article", "type": "string"},
                    {"name": "price", "type": "double"},
                ]}}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        ],
    }
)  # fmt: skip
DOCUMENT: Final = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}, "lines": {"type": "array"}},
        "required": ["id"],
    }
)
ORDERS: Final = [
    {"id": 1, "customer": "J\u00f3n", "lines": [{"article": "pen", "price": 1.5}], "state": "OPEN"},
    {"id": 1 << 40, "customer": "", "lines": [], "state": "PAID"},
]


SETTINGS: Final = {"use.deprecated.format": False}
Run = Callable[..., Any]


class Topic:
    """A topic of one partition, written and read with confluent-kafka."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.bootstrap, self.name = broker.bootstrap, name
        self.context: Final = SerializationContext(name, MessageField.VALUE)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)

    def write(self, values: list[bytes]) -> None:
        """Write values to the end."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(self.name, value)
        assert producer.flush(30) == 0

    def read(self, count: int) -> list[bytes]:
        """The values from the beginning."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none"})
        consumer.assign([TopicPartition(self.name, 0, 0)])
        try:
            messages = consumer.consume(count, 30)
            assert [message.error() for message in messages] == [None] * count
            return [message.value() or b"" for message in messages]
        finally:
            consumer.close()


MakeTopic = Callable[[], Topic]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaRunner]:
    runner = JavaRunner(class_path=class_path)
    yield runner
    runner.close()


@pytest.fixture
def new_topic(broker: Broker, new_name: Names) -> MakeTopic:
    return lambda: Topic(broker, new_name("values"))


@pytest.fixture
def run(java: JavaRunner, registry: Registry) -> Run:
    """``run("produce" or "consume", topic, format, **what it takes)``: the program in Java."""

    def one(what: str, topic: Topic, form: str, **more: Any) -> Any:
        request = {"bootstrap": topic.bootstrap, "registry": registry.url, "topic": topic.name, "format": form}
        done = java.tool("SchemaRecords", what, stdin=json.dumps({**request, **more}), timeout_s=120).check()
        return json.loads(done.out or "null")

    return one


@pytest.mark.parametrize(
    ("form", "dereference", "references"),
    [("avro", False, ["shop.Line", "shop.State"]), ("avro", True, []), ("flink", None, [])],
    ids=["references", "whole", "flink"],
)
def test_avro(
    run: Run,
    new_topic: MakeTopic,
    registry: Registry,
    form: str,
    dereference: bool | None,
    references: list[str],
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    values = new_topic()
    subject = f"{values.name}-value"
    in_java = {"schema": RECORD, "dereference": dereference}
    run("produce", values, form, **in_java, values=ORDERS)
    assert sorted(str(each.name) for each in client.get_latest_version(subject).schema.references or []) == references
    read = AvroDeserializer(client)
    assert [read(value, values.context) for value in values.read(2)] == ORDERS
    write = AvroSerializer(client, RECORD)
    values.write([write(order, values.context) for order in ORDERS])
    assert run("consume", values, form, **in_java, count=4) == ORDERS * 2
    assert client.get_versions(subject) == ([1, 2] if references else [1])  # one, whoever registers the same schema


def test_json_schema(run: Run, new_topic: MakeTopic, registry: Registry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    values = new_topic()
    run("produce", values, "json", schema=DOCUMENT, values=ORDERS)
    read = JSONDeserializer(None, schema_registry_client=client)
    assert [read(value, values.context) for value in values.read(2)] == ORDERS
    write = JSONSerializer(DOCUMENT, client)
    values.write([write(order, values.context) for order in ORDERS])
    assert run("consume", values, "json", schema=DOCUMENT, count=4) == ORDERS * 2
    assert client.get_versions(f"{values.name}-value") == [1]


def test_protobuf(run: Run, new_topic: MakeTopic, registry: Registry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    made = classes()
    in_java = {"files": [base64.b64encode(each.SerializeToString()).decode() for each in files()]}
    for name, (indexes, value) in VALUES.items():
        message = json_format.ParseDict(value, made[name]())
        one = {**in_java, "message": name.removeprefix("shop.")}
        values = new_topic()
        run("produce", values, "protobuf", **one, values=[value])
        [written] = values.read(1)
        assert ProtobufDeserializer(made[name], SETTINGS, client)(written, values.context) == message, name
        payload = ProtobufSerializer(made[name], client, SETTINGS)(message, values.context)
        assert payload is not None
        # The first message of a file has a short form of its indexes in Confluent's, which Apicurio's does not use.
        assert payload[5:].startswith(indexes)
        assert written == (payload[:5] + b"\x02\x00" + payload[6:] if indexes == b"\x00" else payload), name
        values.write([payload])
        assert run("consume", values, "protobuf", **one, count=2) == [value, value], name
        assert client.get_versions(f"{values.name}-value") == [1]


def called(java: JavaRunner, registry: Registry, config: Mapping[str, str], calls: list[list[Any]]) -> list[Any]:
    """The answers to calls of Confluent's client."""
    request = json.dumps({"registry": registry.url, "config": config, "calls": calls})
    answers: list[Any] = json.loads(java.tool("RegistryClient", stdin=request, timeout_s=120).check().out)
    return answers


def test_confluents_client(java: JavaRunner, registry: Registry) -> None:
    small = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
    other = small.replace('"long"', '"string"')
    calls_and_answers: list[tuple[list[Any], Any]] = [
        (["subjects"], []),
        (["latest", "orders"], {"status": 404, "code": 40401}),
        (["register", "orders", small], 1),
        (["register", "again", small], 1),
        (["id", "orders", small], 1),
        (["version", "orders", small], 1),
        (["schema", 1], small),
        (["latest", "orders"], {"id": 1, "version": 1, "type": "AVRO", "schema": small}),
        (["compatible", "orders", other], False),
        (["register", "orders", other], {"status": 409, "code": 409}),
        (["set-compatibility", "orders", "NONE"], "NONE"),
        (["compatibility", "orders"], "NONE"),
        (["set-compatibility", "orders", "SOME"], {"status": 422, "code": 42203}),
        (["compatible", "orders", other], True),
        (["register", "orders", other], 2),
        (["versions", "orders"], [1, 2]),
        (["set-mode", "orders", "READONLY"], "READONLY"),
        (["mode", "orders"], "READONLY"),
        (["delete", "orders", False], {"status": 422, "code": 42205}),
        (["set-mode", "orders", "READWRITE"], "READWRITE"),
        (["delete", "orders", False], [1, 2]),
        (["subjects"], ["again"]),
        (["delete", "orders", True], [1, 2]),
        (["schema", 3], {"status": 404, "code": 40403}),
    ]
    answers = called(java, registry, {}, [call for call, _ in calls_and_answers])
    for (call, wanted), answer in zip(calls_and_answers, answers, strict=True):
        assert answer == wanted, call


def test_confluents_client_over_https(java: JavaRunner, secured: Secured, certificates: Certificates) -> None:
    registry = secured()
    login = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": USER}
    pem = {"schema.registry.ssl.truststore.type": "PEM"}
    trusting = {**pem, "schema.registry.ssl.truststore.location": str(certificates.ca)}
    others = {**pem, "schema.registry.ssl.truststore.location": str(certificates.other_ca)}
    calls = [["register", "orders", '"int"']]
    assert called(java, registry, {**trusting, **login}, calls) == [1]
    [answer] = called(java, registry, trusting, calls)
    assert answer["status"] == 401
    wrong = {**login, "basic.auth.user.info": "alice:public"}
    [answer] = called(java, registry, {**trusting, **wrong}, calls)
    assert answer["status"] == 401
    [answer] = called(java, registry, {**others, **login}, calls)
    assert "unable to find valid certification path" in answer["failed"]
