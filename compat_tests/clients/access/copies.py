"""One record is consumed by a group and produced to another topic in a transaction, with each client.

A copy uses all that an application with exactly-once processing needs: a group, two topics and a transactional id.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from compat_tests.clients.access.least import DONE
from harness.java_runner import JavaRunner
from harness.optional import present
from harness.processes.brokers import wait_until
from harness.waiting import PATIENCE_S

_JAVA_ERROR: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+): ([^\n]*)")


class Work(NamedTuple):
    """What is copied. ``options``: the client's own options for its connections."""

    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    options: Mapping[str, Any]


def copy_once(client: str, work: Work, java: JavaRunner) -> str:
    """`DONE`, or the name of the error with which the client reported that it may not."""
    copies: dict[str, Callable[[], None]] = {
        "kafka-python": lambda: _kafka_python(work),
        "aiokafka": lambda: asyncio.run(_aiokafka(work)),
        "confluent": lambda: _confluent(work),
        "java": lambda: _java(work, java),
    }
    try:
        copies[client]()
    except Exception as error:  # clients have different base classes of errors
        return _name(error)
    return DONE


def _name(error: Exception) -> str:
    from confluent_kafka import KafkaException

    if isinstance(error, KafkaException):
        return str(error.args[0].name())
    if isinstance(error, AssertionError):
        found = _JAVA_ERROR.search(str(error))
        if found is None:
            raise error
        return f"{found[1]}: {found[2]}"
    return type(error).__name__


def _java(work: Work, java: JavaRunner) -> None:
    fields = {**work._asdict(), "config": {"bootstrap.servers": work.bootstrap, **work.options}}
    java.client("copy", {name: value for name, value in fields.items() if name not in ("options", "bootstrap")})


def _confluent(work: Work) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    shared = {"bootstrap.servers": work.bootstrap, "log_level": 0, **work.options}
    reading = {"group.id": work.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    producer = Producer({**shared, "transactional.id": work.transactional_id})
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer({**shared, **reading})
    reported: list[Any] = []
    try:
        consumer.subscribe([work.source])
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        if record.error():
            raise KafkaException(record.error())
        producer.begin_transaction()
        producer.produce(work.target, record.value(), on_delivery=lambda error, _: reported.append(error))
        producer.flush(PATIENCE_S)
        if reported[0]:
            raise KafkaException(reported[0])
        end = TopicPartition(work.source, present(record.partition()), present(record.offset()) + 1)
        producer.send_offsets_to_transaction([end], consumer.consumer_group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
    finally:
        consumer.close()


def _kafka_python(work: Work) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    shared = {"bootstrap_servers": work.bootstrap, **work.options}
    reading = {
        "group_id": work.group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "metadata_max_age_ms": 2_000,  # what it has missed of a new topic it would learn after five minutes
    }
    with contextlib.ExitStack() as stack:
        producer = KafkaProducer(**shared, transactional_id=work.transactional_id)
        stack.callback(producer.close, timeout=1)
        producer.init_transactions()
        consumer = KafkaConsumer(work.source, **shared, **reading)
        stack.callback(consumer.close, autocommit=False)
        consumer.partitions_for_topic(work.source)  # or a leader may assign nothing, and leave it at that
        partition, record = _first(consumer, work.source)
        producer.begin_transaction()
        producer.send(work.target, record.value).get(PATIENCE_S)
        ends = {partition: OffsetAndMetadata(record.offset + 1, "", -1)}
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        producer.commit_transaction()


def _first(consumer: Any, topic: str) -> tuple[Any, Any]:
    """kafka-python's poll returns nothing from a topic that it may not read, and only its log says why."""
    from kafka.errors import TopicAuthorizationFailedError

    def polled() -> bool:
        found.update(consumer.poll(200))
        return bool(found) or topic in consumer._client.cluster.unauthorized_topics

    found: dict[Any, Any] = {}
    wait_until(polled, 3 * PATIENCE_S, "a record")  # joining may have to wait until an earlier member's session is over
    if not found:
        raise TopicAuthorizationFailedError(topic)
    ((partition, (record, *_)),) = found.items()
    return partition, record


async def _aiokafka(work: Work) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    shared = {"bootstrap_servers": work.bootstrap, **work.options}
    reading = {"group_id": work.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with contextlib.AsyncExitStack() as stack:
        producer = AIOKafkaProducer(**shared, transactional_id=work.transactional_id)
        stack.push_async_callback(producer.stop)
        await producer.start()
        consumer = AIOKafkaConsumer(work.source, **shared, **reading)
        stack.push_async_callback(consumer.stop)
        await consumer.start()
        record = await consumer.getone()
        async with producer.transaction():
            await producer.send_and_wait(work.target, record.value)
            ends = {next(iter(consumer.assignment())): record.offset + 1}
            await producer.send_offsets_to_transaction(ends, work.group)
