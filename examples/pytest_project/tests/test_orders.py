"""The service against a real broker: `kwire` is a fixture that comes with ``pip install kwire``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError
from orders import forward_paid, send_order

from kwire.testing import Kwire


@pytest.fixture
def producer(kwire: Kwire) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=kwire.bootstrap_servers, retry_backoff_ms=10)
    yield producer
    producer.close()


def test_paid_orders_are_forwarded_once(kwire: Kwire, producer: KafkaProducer) -> None:
    source, target, group = kwire.topic("orders", partitions=3), kwire.topic("paid"), kwire.name("group")
    for number in range(10):
        send_order(producer, source, {"customer": number, "paid": number % 2 == 0})

    assert forward_paid(kwire.bootstrap_servers, group, source, target) == 5
    send_order(producer, source, {"customer": 10, "paid": True})
    assert forward_paid(kwire.bootstrap_servers, group, source, target) == 1

    consumer = KafkaConsumer(bootstrap_servers=kwire.bootstrap_servers)
    assert consumer.end_offsets([TopicPartition(target, 0)]) == {TopicPartition(target, 0): 6}
    consumer.close()


def test_an_order_survives_a_broker_that_asks_to_try_again(kwire: Kwire, producer: KafkaProducer) -> None:
    topic = kwire.topic("orders")
    kwire.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)

    assert send_order(producer, topic, {"customer": 1, "paid": True}) == 0
    assert kwire.failures_left() == {}, "the broker has said no twice"


def test_a_broker_that_does_not_answer_is_told_in_time(kwire: Kwire, producer: KafkaProducer) -> None:
    topic = kwire.topic("orders")
    with kwire.paused("Produce"), pytest.raises(KafkaTimeoutError):
        producer.send(topic, b"{}").get(timeout=0.2)
