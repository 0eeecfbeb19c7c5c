"""Idempotent producers while the broker is restarted and killed: no record is lost, duplicated or out of order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.clients.drivers import Driver
from harness.processes.brokers import Broker

RECORDS = 3000


def produce_confluent(broker: Broker, topic: str, interrupt: Callable[[int], None]) -> None:
    """Produce all records with confluent-kafka; `interrupt` runs before each one."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "reconnect.backoff.max.ms": 300,
            "log_level": 0,
        }
    )
    failed: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    for index in range(RECORDS):
        interrupt(index)
        producer.produce(topic, b"%d" % index, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed


def produce_kafka_python(broker: Broker, topic: str, interrupt: Callable[[int], None]) -> None:
    """Produce all records with kafka-python; `interrupt` runs before each one."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, enable_idempotence=True, batch_size=500, reconnect_backoff_max_ms=300
    )
    futures = []
    for index in range(RECORDS):
        interrupt(index)
        futures.append(producer.send(topic, b"%d" % index, partition=0))
    producer.flush(60)
    for future in futures:
        future.get(60)
    producer.close()


def produce_aiokafka(broker: Broker, topic: str, interrupt: Callable[[int], None]) -> None:
    """Produce all records with aiokafka; `interrupt` runs before each one."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True, max_batch_size=500)
        await producer.start()
        futures = []
        for index in range(RECORDS):
            interrupt(index)
            futures.append(await producer.send(topic, b"%d" % index, partition=0))
        await asyncio.wait_for(asyncio.gather(*futures), 60)
        await producer.stop()

    asyncio.run(run())


PRODUCERS = {"confluent": produce_confluent, "kafka-python": produce_kafka_python, "aiokafka": produce_aiokafka}


@pytest.mark.long_on_kafka
@pytest.mark.parametrize(("client", "how"), [("confluent", "kill"), ("kafka-python", "kill"), ("aiokafka", "restart")])
def test_a_broker_that_goes_down_in_the_middle_costs_and_doubles_nothing(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], client: str, how: str
) -> None:
    topic = make_topic()
    outage: list[threading.Thread] = []

    def go_down() -> None:
        if how == "kill":
            broker.kill()
            broker.start()
        else:
            broker.restart()

    def interrupt(index: int) -> None:
        if index == RECORDS // 3:
            outage.append(threading.Thread(target=go_down))
            outage[0].start()

    try:
        PRODUCERS[client](broker, topic, interrupt)
    finally:
        outage[0].join()
    got = driver("confluent").consume(broker.bootstrap, topic, [0])
    values = [int(one.value or b"-1") for one in got]
    assert values == list(range(RECORDS))


@pytest.mark.long_on_kafka
def test_sequences_are_remembered_over_a_restart(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver]
) -> None:
    from confluent_kafka import Producer

    topic = make_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    for index in range(2):
        producer.produce(topic, b"%d" % index, partition=0)
        assert producer.flush(60) == 0
        broker.restart()  # the same producer id continues: its next sequence number must follow
    producer.produce(topic, b"2", partition=0)
    assert producer.flush(60) == 0
    got = driver("confluent").consume(broker.bootstrap, topic, [0])
    assert [one.value for one in got] == [b"0", b"1", b"2"]
