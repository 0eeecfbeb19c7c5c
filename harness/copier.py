"""A process that copies a topic in transactions until it is killed, each partition to the same partition.

``python -m harness.copier CLIENT BOOTSTRAP SOURCE TARGET GROUP PER_TRANSACTION SESSION_TIMEOUT_MS PAUSE_MS``. An error
ends the process; the campaign starts the next one. Each transaction pauses for up to PAUSE_MS before and after its
offsets are sent, so that kills hit the middle. ``KWIRE_COPY_DEBUG=eos,broker`` is passed to librdkafka's producer as
its debug contexts.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import random
import sys
import time
from typing import NamedTuple

from harness.optional import present

TIMEOUT_S = 15
WATCHDOG_S = 20
"""A transaction that takes longer ends the process with a dump of its threads. Longer than all time-outs in it."""


def watch() -> None:
    """Restart the watchdog; called before each transaction."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)


class Job(NamedTuple):
    """One copier's command line; times in milliseconds."""

    bootstrap: str
    source: str
    target: str
    group: str
    per_transaction: int
    session_timeout_ms: int
    pause_ms: int

    @property
    def transactional_id(self) -> str:
        """The copier's transactional id, which follows from its group."""
        return f"copy-{self.group}"

    @property
    def pause_s(self) -> float:
        """A random pause, in seconds."""
        return random.random() * self.pause_ms / 1000


def confluent(job: Job) -> None:
    """Copy with confluent-kafka. librdkafka 2.16 ignores its time-out and waits for ever in send_offsets_to_transaction
    if a re-bootstrap has discarded the group coordinator that it remembers. That happens when all brokers, of Apache
    Kafka or of kwire, are gone for a moment (librdkafka's issues 5511 and 5456). So this copier does not re-bootstrap,
    and has a watchdog."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": job.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": job.session_timeout_ms,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "transactional.id": job.transactional_id,
            "transaction.timeout.ms": 10_000,
            "metadata.recovery.strategy": "none",
            **({"debug": os.environ["KWIRE_COPY_DEBUG"]} if "KWIRE_COPY_DEBUG" in os.environ else {}),
        }
    )
    producer.init_transactions(TIMEOUT_S)
    consumer.subscribe([job.source])
    while True:
        records = [one for one in consumer.consume(job.per_transaction, 0.5) if one.error() is None]
        watch()
        if not records:
            continue
        producer.begin_transaction()
        for one in records:
            producer.produce(job.target, one.value(), partition=present(one.partition()))
        producer.flush(job.pause_s)
        time.sleep(job.pause_s)
        ends = {present(one.partition()): present(one.offset()) + 1 for one in records}
        offsets = [TopicPartition(job.source, index, offset) for index, offset in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        time.sleep(job.pause_s)
        producer.commit_transaction(TIMEOUT_S)


def kafka_python(job: Job) -> None:
    """Copy with kafka-python. Version 3.0.12 waits for ever, too: its sender drops the current request if it cannot
    connect to the coordinator (of any broker), and only the watchdog bounds a transaction's time."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        job.source,
        bootstrap_servers=job.bootstrap,
        group_id=job.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=job.session_timeout_ms,
        heartbeat_interval_ms=job.session_timeout_ms // 4,
        max_poll_records=job.per_transaction,
    )
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
    """Copy with aiokafka."""
    asyncio.run(_aiokafka(job))


async def _aiokafka(job: Job) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    consumer = AIOKafkaConsumer(
        job.source,
        bootstrap_servers=job.bootstrap,
        group_id=job.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=job.session_timeout_ms,
        heartbeat_interval_ms=job.session_timeout_ms // 4,
    )
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
    bootstrap, source, target, group = sys.argv[2:6]
    CLIENTS[sys.argv[1]](Job(bootstrap, source, target, group, *(int(word) for word in sys.argv[6:9])))
