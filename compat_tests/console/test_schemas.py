"""Messages with schemas of a registry, as the page shows and finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat_tests.console.conftest import CLUSTER, running_console
from compat_tests.names import Names
from harness.processes.brokers import Broker
from harness.registries.process import Registry

if TYPE_CHECKING:
    from playwright.sync_api import Page

RECORD = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "int"}, {"name": "region", "type": "string"}]}"""


def test_messages_are_shown_found_and_sent_again(
    page: Page, broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    topic, registry = make_topic(1), Registry(broker.bootstrap, new_name("schemas"))
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        serialize = AvroSerializer(client, RECORD)
        payloads = [serialize({"id": id, "region": region}, context) for id, region in enumerate(("eu", "us"))]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in payloads:
        producer.produce(topic, each)
    assert producer.flush(60) == 0
    try:
        with running_console(tmp_path, broker.bootstrap, "--registry", f"{CLUSTER}={registry.url}") as console:
            page.goto(console.url)
            page.goto(console.topic(topic, "messages"))
            page.get_by_text('{"id":0,"region":"eu"}').wait_for()
            page.goto(console.topic(topic, "search"))
            page.get_by_label("JSON PATH=VALUE").fill("region=us")
            page.get_by_role("button", name="Search").click()
            page.get_by_text("2 messages seen, 1 found").wait_for()
            page.get_by_role("button", name="Show offset 1 of partition 0").click()
            page.get_by_text(f"AVRO, schema 1, {topic}-value version 1").wait_for()
            page.get_by_label("hex").check()
            page.get_by_text("00 00 00 00 01").wait_for()
            page.get_by_role("button", name="Send again").click()
            page.get_by_role("button", name="Write", exact=True).click()
            page.get_by_text("at offset 2").wait_for()
    finally:
        registry.close()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [message.value() for _ in range(3) if (message := consumer.poll(60)) is not None]
    consumer.close()
    assert found == [*payloads, payloads[1]]
