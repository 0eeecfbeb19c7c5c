"""Acknowledgements, record sizes, timestamps and automatic topic creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from compat_tests.clients.drivers import CLIENTS, CODECS, Driver, Sent, run_kcat
from compat_tests.clients.test_produce_and_consume import noise
from compat_tests.comparisons.data.requests import Topic
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client", CLIENTS)
def test_records_arrive_with_every_level_of_acknowledgement(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], client: str, acks: int
) -> None:
    topic = make_topic()
    writer = driver(client)
    records = [Sent(0, None, b"%d" % index) for index in range(3)]
    writer.produce(broker.bootstrap, topic, records, acks=acks)
    reader = driver("confluent")

    def values() -> list[bytes | None]:
        return [got.value for got in reader.consume(broker.bootstrap, topic, [0])]

    wait_until(lambda: len(values()) == 3, 20, "the records of a producer without acknowledgements")
    assert values() == [record.value for record in records]


def produce_one(broker: Broker, topic: str, value: bytes, **config: Any) -> KafkaError | None:
    """Produce with librdkafka, whose own size limit is raised; returns the broker's error or None."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 20_000_000, **config})
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_may_be_as_large_as_the_limit_and_not_one_byte_larger(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], codec: str, observe: Observations
) -> None:
    topic = make_topic(configs={"max.message.bytes": "100000"})
    seen = {}
    for size in (50_000, 99_000, 99_900, 99_930, 99_931, 99_932, 99_940, 101_000):
        error = produce_one(broker, topic, noise(size), **{"compression.type": codec})
        seen[size] = None if error is None else error.name()
    observe("errors", seen)
    assert seen[50_000] is None and seen[101_000] == "MSG_SIZE_TOO_LARGE"
    stored = [len(got.value or b"") for got in driver("confluent").consume(broker.bootstrap, topic, [0])]
    assert stored == [size for size, error in seen.items() if error is None]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_megabyte_in_one_record_goes_through_every_client(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], client: str
) -> None:
    topic = make_topic()
    value = noise(999_000)  # close to the default limit of all clients, 1,000,000 bytes in librdkafka
    one = driver(client)
    one.produce(broker.bootstrap, topic, [Sent(0, b"big", value)])
    (got,) = one.consume(broker.bootstrap, topic, [0])
    assert got.value == value


def test_the_broker_can_set_the_time_of_records(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], observe: Observations
) -> None:
    topic = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    records = [Sent(0, None, b"%d" % index, (), 1000 + index) for index in range(5)]
    for codec in CODECS:
        driver("confluent").produce(broker.bootstrap, topic, records, codec)
    seen = {}
    for client in ("kafka-python", "aiokafka", "confluent", "java"):
        got = driver(client).consume(broker.bootstrap, topic, [0])
        assert all(one.timestamp > 1_700_000_000_000 for one in got)
        seen[client] = [(one.offset, one.value, one.timestamp_type) for one in got]
    observe("records", seen)


def test_too_old_and_too_new_times_are_refused(
    broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    configs = {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"}
    topic = make_topic(configs=configs)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    errors: list[str | None] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        errors.append(None if error is None else error.name())

    for timestamp in (1000, 4_000_000_000_000, 0):  # 0: the current time
        producer.produce(topic, b"v", timestamp=timestamp, on_delivery=delivered)
        assert producer.flush(20) == 0
    observe("errors", errors)
    assert errors[-1] is None and None not in errors[:-1]


@pytest.mark.parametrize("client", CLIENTS)
def test_writing_to_a_topic_that_is_not_there_creates_it(
    broker: Broker, topic: str, driver: Callable[[str], Driver], client: str, admin: Any, observe: Observations
) -> None:
    driver(client).produce(broker.bootstrap, topic, [Sent(0, None, b"first")])
    (got,) = driver(client).consume(broker.bootstrap, topic, [0])
    assert got.value == b"first"
    described = admin.list_topics(topic, timeout=20).topics[topic]
    observe("partitions", {index: one.replicas for index, one in described.partitions.items()})


def test_a_topic_that_may_not_be_created_stays_away(broker: Broker, observe: Observations) -> None:
    error = produce_one(broker, "no/such topic", b"v", **{"message.timeout.ms": 3000})
    assert error is not None
    observe("error", error.name())


def test_keyless_records_are_refused_by_compacted_topics(
    broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(configs={"cleanup.policy": "compact"})
    error = produce_one(broker, topic, b"no key")
    assert error is not None
    observe("error", error.name())


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed", "lz4", "snappy"])
def test_a_topic_may_insist_on_its_own_compression(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], codec: str
) -> None:
    topic = make_topic(configs={"compression.type": codec})
    records = [Sent(0, b"%d" % index, b"words and words " * 40, (("h", b"v"),), 5_000 + index) for index in range(20)]
    for sent_with in CODECS:
        driver("confluent").produce(broker.bootstrap, topic, records, sent_with)
    for client in ("confluent", "java"):
        got = driver(client).consume(broker.bootstrap, topic, [0])
        assert [one.offset for one in got] == list(range(100))
        plain = [Sent(0, one.key, one.value, one.headers, one.timestamp) for one in got]
        assert plain == records * len(CODECS)


def test_kcat_lists_what_the_broker_has(
    broker: Broker, make_topic: Callable[..., str], driver: Callable[[str], Driver], observe: Observations
) -> None:
    driver("kcat")
    topic = make_topic(3)
    text = run_kcat(["kcat", "-b", broker.bootstrap, "-L", "-t", topic]).decode()
    observe("listing", [line.replace(broker.bootstrap, "ADDRESS") for line in text.splitlines()])
    with WireClient(broker.bootstrap) as client:
        Topic(client, topic)  # waits until every partition has a leader
    query = run_kcat(["kcat", "-b", broker.bootstrap, "-Q", "-t", f"{topic}:0:-1", "-t", f"{topic}:1:-2"]).decode()
    observe("offsets", sorted(query.splitlines()))


def test_a_producer_that_gives_up_is_told_why(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 1000, "acks": "all"})
    with pytest.raises(KafkaException):
        producer.init_transactions(1)  # no transactional.id: refused before anything is sent
