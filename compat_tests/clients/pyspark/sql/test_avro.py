"""`kwire.spark.from_avro` and `to_avro` beside confluent-kafka's serializers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat_tests.names import Names
from harness.processes.brokers import Broker
from harness.processes.certificates import Certificates
from harness.registries.process import Registry, secured_options

pytestmark = [pytest.mark.java, pytest.mark.long_on_kafka]

USER = "alice:secret"
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIELDS = [{"name": "id", "type": "int"}, {"name": "amount", "type": AMOUNT}]
REGION = {"name": "region", "type": ["null", "string"], "default": None}


def schema(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def registry(broker: Broker, new_name: Names, certificates: Certificates, tmp_path: Path) -> Iterator[Registry]:
    """One that has TLS, and wants a login."""
    options = secured_options(certificates, USER, tmp_path / "users")
    made = Registry(broker.bootstrap, new_name("schemas"), *options, ca=certificates.ca)
    yield made
    made.close()


@pytest.fixture
def login(registry: Registry, certificates: Certificates) -> dict[str, str]:
    return {
        "schema.registry.url": registry.url,
        "basic.auth.user.info": USER,
        "ssl.ca.location": str(certificates.ca),
    }


@pytest.fixture
def client(registry: Registry, certificates: Certificates) -> Iterator[SchemaRegistryClient]:
    settings = {"url": registry.url, "basic.auth.user.info": USER, "ssl.ca.location": str(certificates.ca)}
    with SchemaRegistryClient(settings) as made:
        yield made


def test_serializers_and_spark_read_each_other(
    spark: Any, broker: Broker, login: dict[str, str], client: SchemaRegistryClient, make_topic: Callable[..., str]
) -> None:
    from pyspark.sql.functions import col, struct

    from kwire.spark import from_avro, to_avro

    topic, copy = make_topic(2), make_topic(1)
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, each in enumerate((schema(*FIELDS), schema(*FIELDS, REGION))):
        serialize = AvroSerializer(client, each)
        for id in range(number * 100, number * 100 + 100):
            value = {"id": id, "amount": Decimal(id) / 4, "region": "eu"}
            producer.produce(topic, serialize(value, context), b"k%d" % id)
    producer.produce(topic, None, b"tombstone")
    assert producer.flush(60) == 0
    records = spark.read.format("kwire").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    orders = records.load().select("key", from_avro(col("value"), f"{topic}-value", login).alias("order"))
    assert orders.schema["order"].dataType.simpleString() == "struct<id:int,amount:decimal(9,2),region:string>"
    found = {each.key.decode(): each.order for each in orders.collect()}
    assert len(found) == 201 and found["tombstone"] is None
    assert found["k7"].asDict() == {"id": 7, "amount": Decimal("1.75"), "region": None}
    assert found["k107"].asDict() == {"id": 107, "amount": Decimal("26.75"), "region": "eu"}
    text = schema(*FIELDS)
    again = orders.where("order.id = 7").select(
        "key", to_avro(struct("order.id", "order.amount"), f"{copy}-value", login, schema=text).alias("value")
    )
    sink = again.write.format("kwire").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    sink.option("topic", copy).save()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": copy, "auto.offset.reset": "earliest"})
    consumer.subscribe([copy])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    written = AvroDeserializer(client)(message.value(), SerializationContext(copy, MessageField.VALUE))
    assert written == {"id": 7, "amount": Decimal("1.75")}


def test_what_does_not_fit_ends_the_query_or_is_null(
    spark: Any, registry: Registry, login: dict[str, str], client: SchemaRegistryClient
) -> None:
    from pyspark.errors import PythonException

    from kwire.spark import from_avro

    value = AvroSerializer(client, schema(*FIELDS))(
        {"id": 1, "amount": Decimal(1)}, SerializationContext("t", MessageField.VALUE)
    )
    rows = spark.createDataFrame([(bytearray(each),) for each in (value, b"text")], "value binary")
    permissive = rows.select(from_avro("value", "t-value", login, mode="PERMISSIVE").alias("v")).collect()
    assert [each.v and each.v.id for each in permissive] == [1, None]
    with pytest.raises(PythonException, match="from_avro: no schema id"):
        rows.select(from_avro("value", "t-value", login)).collect()
    with pytest.raises(ValueError, match="there is no subject none"):
        from_avro("value", "none", login)
    with pytest.raises(ValueError, match="Unauthorized"):
        from_avro("value", "t-value", {**login, "basic.auth.user.info": "alice:wrong"})
    with pytest.raises(ValueError, match="certificate"):
        from_avro("value", "t-value", registry.url)
    with pytest.raises(ValueError, match="Connection refused"):
        from_avro("value", "t-value", "http://127.0.0.1:1")
