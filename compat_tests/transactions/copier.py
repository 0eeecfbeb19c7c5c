"""A process that copies a topic in transactions until it is killed, one partition to the same one.

``python -m compat_tests.transactions.copier CLIENT BOOTSTRAP SOURCE TARGET GROUP PER_TRANSACTION``. It never gives
up by itself: an error ends the process, and whoever started it starts the next one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import NamedTuple


class Job(NamedTuple):
    bootstrap: str
    source: str
    target: str
    group: str
    per_transaction: int

    @property
    def transactional_id(self) -> str:
        return f"copy-{self.group}"


def confluent(job: Job) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": job.bootstrap, "group.id": job.group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "isolation.level": "read_committed", "session.timeout.ms": 6000,
    })  # fmt: skip
    producer = Producer({
        "bootstrap.servers": job.bootstrap, "transactional.id": job.transactional_id, "transaction.timeout.ms": 10_000,
        **({"debug": os.environ["KWIRE_COPY_DEBUG"]} if "KWIRE_COPY_DEBUG" in os.environ else {}),
    })  # fmt: skip
    producer.init_transactions(30)
    consumer.subscribe([job.source])
    while True:
        records = [one for one in consumer.consume(job.per_transaction, 0.5) if one.error() is None]
        if not records:
            continue
        producer.begin_transaction()
        for one in records:
            producer.produce(job.target, one.value(), partition=one.partition())
        ends = {one.partition(): one.offset() + 1 for one in records}
        positions = [TopicPartition(job.source, index, offset) for index, offset in ends.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)


def kafka_python(job: Job) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        job.source, bootstrap_servers=job.bootstrap, group_id=job.group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=6000,
        max_poll_records=job.per_transaction,
    )  # fmt: skip
    producer = KafkaProducer(
        bootstrap_servers=job.bootstrap, transactional_id=job.transactional_id, transaction_timeout_ms=10_000
    )
    producer.init_transactions()
    while True:
        polled = consumer.poll(500)
        if not polled:
            continue
        producer.begin_transaction()
        offsets = {}
        for partition, records in polled.items():
            for one in records:
                producer.send(job.target, one.value, partition=one.partition)
            offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()


def aiokafka(job: Job) -> None:
    asyncio.run(_aiokafka(job))


async def _aiokafka(job: Job) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    consumer = AIOKafkaConsumer(
        job.source, bootstrap_servers=job.bootstrap, group_id=job.group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=6000,
    )  # fmt: skip
    producer = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap, transactional_id=job.transactional_id, transaction_timeout_ms=10_000
    )
    await producer.start()
    await consumer.start()
    while True:
        polled = await consumer.getmany(timeout_ms=500, max_records=job.per_transaction)
        if not polled:
            continue
        async with producer.transaction():
            offsets = {}
            for partition, records in polled.items():
                for one in records:
                    await producer.send(job.target, one.value, partition=one.partition)
                offsets[partition] = records[-1].offset + 1
            await producer.send_offsets_to_transaction(offsets, job.group)


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](Job(*sys.argv[2:6], int(sys.argv[6])))  # type: ignore[arg-type, call-arg]
