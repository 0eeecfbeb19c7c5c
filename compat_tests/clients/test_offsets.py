"""Offsets that clients look up: by timestamp, at the ends of the log, out of range, after deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from compat_tests.clients.drivers import CODECS, Driver, Sent
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

T0 = 1_760_000_000_000
TIMES = [0, T0 - 1, T0, T0 + 1, T0 + 450, T0 + 500, T0 + 999, T0 + 4_000, T0 + 4_900, T0 + 4_901, T0 + 10_000_000]
Lookup = list[tuple[int, int] | None]


def confluent_times(bootstrap: str, topic: str, times: Sequence[int]) -> Lookup:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    found = [consumer.offsets_for_times([TopicPartition(topic, 0, time)], timeout=20)[0].offset for time in times]
    consumer.close()
    return [(offset, -1) if offset >= 0 else None for offset in found]


def kafka_python_times(bootstrap: str, topic: str, times: Sequence[int]) -> Lookup:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Partition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        found = [consumer.offsets_for_times({Partition(topic, 0): time})[Partition(topic, 0)] for time in times]
        return [None if one is None else (one.offset, one.timestamp) for one in found]
    finally:
        consumer.close()


def aiokafka_times(bootstrap: str, topic: str, times: Sequence[int]) -> Lookup:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Partition

    async def look_up() -> Lookup:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        await consumer.start()
        try:
            responses = [(await consumer.offsets_for_times({Partition(topic, 0): time})) for time in times]
            found = [response[Partition(topic, 0)] for response in responses]
            return [None if one is None else (one.offset, one.timestamp) for one in found]
        finally:
            await consumer.stop()

    return asyncio.run(look_up())


def java_times(bootstrap: str, topic: str, times: Sequence[int], runner: JavaRunner) -> Lookup:
    request = {"config": {"bootstrap.servers": bootstrap}, "topic": topic, "partition": 0, "times": list(times)}
    return [None if one is None else (one[0], one[1]) for one in runner.client("offsets-for-times", request)]


@pytest.mark.java
def test_every_client_finds_the_same_offset_for_a_time(
    broker: Broker,
    make_topic: Callable[..., str],
    driver: Callable[[str], Driver],
    java: JavaRunner,
    observe: Observations,
) -> None:
    topic = make_topic()
    for number in range(10):  # batches of every codec, one record per 100 ms
        codec = CODECS[number % len(CODECS)]
        records = [Sent(0, None, b"v", (), T0 + 500 * number + 100 * index) for index in range(5)]
        driver("java").produce(broker.bootstrap, topic, records, codec, linger_ms=1000)
    found = {
        "kafka-python": kafka_python_times(broker.bootstrap, topic, TIMES),
        "aiokafka": aiokafka_times(broker.bootstrap, topic, TIMES),
        "java": java_times(broker.bootstrap, topic, TIMES, java),
    }
    observe("found", found)
    assert found["java"] == found["kafka-python"] == found["aiokafka"]
    offsets = [None if one is None else one[0] for one in found["java"]]
    assert offsets == [0, 0, 0, 1, 5, 5, 10, 40, 49, None, None]
    assert [one and one[0] for one in confluent_times(broker.bootstrap, topic, TIMES)] == offsets


def test_times_out_of_order_are_found_by_the_first_record_that_is_late_enough(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], observe: Observations
) -> None:
    topic = make_topic()
    for time in (T0 + 50, T0 + 10, T0 + 90, T0 + 20, T0 + 90, T0):
        driver("confluent").produce(broker.bootstrap, topic, [Sent(0, None, b"v", (), time)])
    found = kafka_python_times(broker.bootstrap, topic, [T0, T0 + 15, T0 + 51, T0 + 90, T0 + 91])
    observe("found", found)
    assert found == [(0, T0 + 50), (0, T0 + 50), (2, T0 + 90), (2, T0 + 90), None]


def list_offsets(admin: Any, topic: str, spec: Any) -> tuple[int, int, int | None]:
    partition = TopicPartition(topic, 0)
    found = admin.list_offsets({partition: spec})[partition].result(20)
    return found.offset, found.timestamp, found.leader_epoch


def test_earliest_latest_and_the_largest_time(
    broker: Broker,
    make_topic: Callable[..., str],
    driver: Callable[[str], Driver],
    admin: Any,
    observe: Observations,
) -> None:
    topic = make_topic()
    specs: dict[str, OffsetSpec] = {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "max": OffsetSpec.max_timestamp(),
        "time": OffsetSpec.for_timestamp(T0 + 15),
    }
    observe("empty", {name: list_offsets(admin, topic, spec) for name, spec in specs.items()})
    times = [T0, T0 + 70, T0 + 30]
    driver("confluent").produce(broker.bootstrap, topic, [Sent(0, None, b"v", (), time) for time in times], "gzip")
    observe("three records", {name: list_offsets(admin, topic, spec) for name, spec in specs.items()})
    assert list_offsets(admin, topic, specs["max"])[:2] == (1, T0 + 70)
    admin.delete_records([TopicPartition(topic, 0, 2)])[TopicPartition(topic, 0)].result(20)
    observe("after deletion", {name: list_offsets(admin, topic, spec) for name, spec in specs.items()})


def test_a_consumer_beyond_the_ends_is_told_so_or_reset(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], observe: Observations
) -> None:
    topic = make_topic()
    driver("confluent").produce(broker.bootstrap, topic, [Sent(0, None, b"%d" % index) for index in range(5)])
    seen = {}
    for reset in ("error", "earliest"):
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "auto.offset.reset": reset}
        consumer = Consumer({**config, "enable.auto.commit": False})
        consumer.list_topics(topic)
        consumer.assign([TopicPartition(topic, 0, 100)])
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
        seen[reset] = error.name() if error is not None else [message.offset(), message.value()]
        consumer.close()
    observe("seen", seen)
    assert seen["earliest"] == [0, b"0"]


def watermarks(broker: Broker, topic: str) -> tuple[int, int]:
    """The first and the next offset; waits until a broker that has just started leads the partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    found: list[tuple[int, int]] = []

    def ask() -> bool:
        try:
            found.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
        return bool(found)

    try:
        wait_until(ask, 20, "a leader")
        return found[0]
    finally:
        consumer.close()


def test_deleted_records_are_gone_also_after_a_restart(
    broker: Broker,
    make_topic: Callable[..., str],
    driver: Callable[[str], Driver],
    admin: Any,
    observe: Observations,
) -> None:
    topic = make_topic()
    for start in range(0, 10, 2):
        records = [Sent(0, None, b"%d" % index) for index in (start, start + 1)]
        driver("confluent").produce(broker.bootstrap, topic, records, "gzip")
    partition = TopicPartition(topic, 0)
    low = admin.delete_records([TopicPartition(topic, 0, 5)])[partition].result(20).low_watermark
    observe("low watermark", low)
    assert watermarks(broker, topic) == (5, 10)
    got = driver("confluent").consume(broker.bootstrap, topic, [0])
    observe("left", [(one.offset, one.value) for one in got])
    with pytest.raises(KafkaException) as caught:
        admin.delete_records([TopicPartition(topic, 0, 11)])[partition].result(20)
    observe("beyond the end", caught.value.args[0].name())
    broker.restart()
    assert watermarks(broker, topic) == (5, 10)
    assert [one.offset for one in driver("java").consume(broker.bootstrap, topic, [0])] == [5, 6, 7, 8, 9]


def test_a_deleted_topic_comes_back_empty_under_its_name(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], admin: Any
) -> None:
    topic = make_topic()
    driver("confluent").produce(broker.bootstrap, topic, [Sent(0, None, b"old")])
    first_id = admin.describe_topics(_collection(topic))[topic].result(20).topic_id
    admin.delete_topics([topic], operation_timeout=20)[topic].result(20)

    def is_gone() -> bool:
        try:
            admin.describe_topics(_collection(topic))[topic].result(20)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
        return False

    wait_until(is_gone, 20, "the topic's end")
    make_topic(name=topic)
    assert str(admin.describe_topics(_collection(topic))[topic].result(20).topic_id) != str(first_id)
    assert watermarks(broker, topic) == (0, 0)
    driver("confluent").produce(broker.bootstrap, topic, [Sent(0, None, b"new")])
    for client in ("confluent", "kafka-python", "aiokafka"):
        assert [one.value for one in driver(client).consume(broker.bootstrap, topic, [0])] == [b"new"]


def _collection(topic: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection([topic])
