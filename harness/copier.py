"""A process that copies a topic in transactions until it is killed, one partition to the same one.

``python -m harness.copier CLIENT BOOTSTRAP SOURCE TARGET GROUP PER_TRANSACTION SESSION_TIMEOUT_MS
PAUSE_MS``. It never gives up by itself: an error ends the process, and whoever started it starts the next one. In
every transaction it rests for up to PAUSE_MS before and after its offsets are sent, for kills to hit the middle.
``KWIRE_COPY_DEBUG=eos,broker`` has librdkafka's producer say what it does.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import random
import sys
import time
from typing import NamedTuple

TIMEOUT_S = 15
WATCHDOG_S = 20
"""A transaction that takes longer ends the process, with its threads' work: longer than all time-outs in it."""


def watch() -> None:
    """Called before each transaction."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)


class Job(NamedTuple):
    bootstrap: str
    source: str
    target: str
    group: str
    per_transaction: int
    session_timeout_ms: int
    pause_ms: int

    @property
    def transactional_id(self) -> str:
        return f"copy-{self.group}"

    @property
    def pause_s(self) -> float:
        """How long to rest now."""
        return random.random() * self.pause_ms / 1000


def confluent(job: Job) -> None:
    """librdkafka 2.16 waits for ever in send_offsets_to_transaction, its time-out ignored, when the group coordinator
    that it remembers was thrown away by a re-bootstrap: after all brokers were gone for a moment, Apache Kafka's as
    well as kwire (librdkafka's issues 5511 and 5456). So this application does not re-bootstrap, and has a watchdog."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": job.bootstrap, "group.id": job.group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "isolation.level": "read_committed", "session.timeout.ms": job.session_timeout_ms,
    })  # fmt: skip
    producer = Producer({
        "bootstrap.servers": job.bootstrap, "transactional.id": job.transactional_id, "transaction.timeout.ms": 10_000,
        "metadata.recovery.strategy": "none",
        **({"debug": os.environ["KWIRE_COPY_DEBUG"]} if "KWIRE_COPY_DEBUG" in os.environ else {}),
    })  # fmt: skip
    producer.init_transactions(TIMEOUT_S)
    consumer.subscribe([job.source])
    while True:
        records = [one for one in consumer.consume(job.per_transaction, 0.5) if one.error() is None]
        watch()
        if not records:
            continue
        producer.begin_transaction()
        for one in records:
            producer.produce(job.target, one.value(), partition=one.partition())
        producer.flush(job.pause_s)
        time.sleep(job.pause_s)
        ends = {one.partition(): one.offset() + 1 for one in records}
        positions = [TopicPartition(job.source, index, offset) for index, offset in ends.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
        time.sleep(job.pause_s)
        producer.commit_transaction(TIMEOUT_S)


def kafka_python(job: Job) -> None:
    """kafka-python 3.0.12 waits for ever, too: its sender forgets the request in hand when the connection to the
    coordinator cannot be made (on whatever broker), and nothing in a transaction has a time-out but the watchdog's."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        job.source, bootstrap_servers=job.bootstrap, group_id=job.group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=job.session_timeout_ms,
        heartbeat_interval_ms=job.session_timeout_ms // 4,
        max_poll_records=job.per_transaction,
    )  # fmt: skip
    producer = KafkaProducer(
        bootstrap_servers=job.bootstrap, transactional_id=job.transactional_id, transaction_timeout_ms=10_000
    )
    producer.init_transactions()
    while True:
        polled = consumer.poll(500)
        watch()
        if not polled:
            continue
        producer.begin_transaction()
        offsets = {}
        for partition, records in polled.items():
            for one in records:
                producer.send(job.target, one.value, partition=one.partition)
            offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        time.sleep(job.pause_s)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        time.sleep(job.pause_s)
        producer.commit_transaction()


def aiokafka(job: Job) -> None:
    asyncio.run(_aiokafka(job))


async def _aiokafka(job: Job) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    consumer = AIOKafkaConsumer(
        job.source, bootstrap_servers=job.bootstrap, group_id=job.group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=job.session_timeout_ms,
        heartbeat_interval_ms=job.session_timeout_ms // 4,
    )  # fmt: skip
    producer = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap, transactional_id=job.transactional_id, transaction_timeout_ms=10_000
    )
    await producer.start()
    await consumer.start()
    while True:
        polled = await consumer.getmany(timeout_ms=500, max_records=job.per_transaction)
        watch()
        if not polled:
            continue
        async with producer.transaction():
            offsets = {}
            for partition, records in polled.items():
                for one in records:
                    await producer.send(job.target, one.value, partition=one.partition)
                offsets[partition] = records[-1].offset + 1
            await asyncio.sleep(job.pause_s)
            await producer.send_offsets_to_transaction(offsets, job.group)
            await asyncio.sleep(job.pause_s)


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    watch()
    CLIENTS[sys.argv[1]](Job(*sys.argv[2:6], *map(int, sys.argv[6:9])))  # type: ignore[arg-type, call-arg]
