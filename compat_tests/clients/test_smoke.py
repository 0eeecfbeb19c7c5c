"""The shortest walk: produce and consume one record, and the broker's life cycle."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Producer

from compat_tests.brokers import Broker
from compat_tests.observations import Observations


def test_a_record_survives_kill_and_restart(
    broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    producer.produce(topic, b"value", b"key")
    assert producer.flush(20) == 0
    port = broker.port
    broker.kill()
    broker.start()
    broker.restart()
    assert broker.port == port
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    assert message is not None and message.error() is None
    observe("record", [message.key(), message.value(), message.offset()])
    consumer.close()
