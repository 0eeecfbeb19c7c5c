"""Data directories of whole brokers: DumpLogSegments accepts them, and kwire serves one that Apache Kafka wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.drivers import CODECS, Driver, Got, Sent
from compat_tests.clients.test_produce_and_consume import sample
from harness.java_runner import JavaRunner
from harness.processes.brokers import Broker, make_broker

pytestmark = pytest.mark.java

# DumpLogSegments prints this for every segment that does not begin at offset 0, for Kafka's own segments as well.
FIRST_RECORD = re.compile(r"(Non-consecutive offsets in \S+\n)?^  -1 is followed by \d+$\n?", re.M)
COMPLAINTS = re.compile(r"mismatch|isvalid: false|not a valid|bytes are not|Non-?consecutive|corrupt|exception", re.I)


def keep_busy(bootstrap: str, driver: Callable[[str], Driver]) -> None:
    """Topics of all clients and codecs, many segments, idempotent producers, a group's commits, deletions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [
        NewTopic("mixed", len(CODECS)),
        NewTopic("segments", 2, config={"segment.bytes": "1048576"}),
        NewTopic("compacted", 1, config={"cleanup.policy": "compact", "segment.ms": "1000"}),
        NewTopic("stamped", 1, config={"message.timestamp.type": "LogAppendTime"}),
        NewTopic("gone", 1),
    ]
    for future in admin.create_topics(wanted, operation_timeout=20).values():
        future.result(20)
    for client in ("confluent", "kafka-python", "aiokafka", "java"):
        for index, codec in enumerate(CODECS):
            driver(client).produce(bootstrap, "mixed", sample(index, driver(client)), codec)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for index in range(600):
        producer.produce("segments", bytes([index % 251]) * 10_000, partition=index % 2)
        producer.produce("compacted", b"v%d" % index, key=b"k%d" % (index % 7))
        producer.produce("stamped", b"v%d" % index)
        producer.produce("gone", b"v%d" % index)
    assert producer.flush(60) == 0
    commit(bootstrap, "watchers", {"mixed": 3, "segments": 42})
    admin.delete_records([TopicPartition("segments", 0, 150)])[TopicPartition("segments", 0)].result(20)
    admin.delete_topics(["gone"], operation_timeout=20)["gone"].result(20)


def commit(bootstrap: str, group: str, offsets: dict[str, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, 0, offset, metadata="note") for topic, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topics: list[str]) -> list[tuple[str, int, str | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0) for topic in topics], timeout=30)
    consumer.close()
    return [(one.topic, one.offset, one.metadata) for one in found]


def partition_files(data_dir: Path, *suffixes: str) -> list[Path]:
    """The log files of live partitions, without those that a kill left of a deleted topic."""
    found = [path for path in data_dir.rglob("*") if path.suffix in suffixes]
    return sorted(path for path in found if not re.search(r"-delete$|-stray$|^__cluster", path.parent.name))


def complaints(java: JavaRunner, data_dir: Path) -> list[str]:
    """All complaints of DumpLogSegments about the directory."""
    said = []
    for suffix, arguments in ((".log", ["--deep-iteration"]), (".index", ["--index-sanity-check"])):
        suffixes = (suffix,) if suffix == ".log" else (".index", ".timeindex", ".txnindex", ".snapshot")
        files = partition_files(data_dir, *suffixes)
        assert files, f"no {suffix} files in {data_dir}"
        result = java.tool("DumpLogSegments", *arguments, "--files", ",".join(map(str, files)))
        text = FIRST_RECORD.sub("", result.out + result.err)
        said += [line for line in text.splitlines() if COMPLAINTS.search(line)]
        assert result.status == 0, result.err
    deep = ["--verify-index-only", "--files", ",".join(map(str, partition_files(data_dir, ".index", ".timeindex")))]
    result = java.tool("DumpLogSegments", *deep).check()
    return said + [line for line in result.out.splitlines() if COMPLAINTS.search(line)]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_kafka_accepts_every_file_of_a_busy_broker(
    broker_factory: Callable[..., Broker], driver: Callable[[str], Driver], java: JavaRunner, how: str
) -> None:
    broker = broker_factory()
    keep_busy(broker.bootstrap, driver)
    if how == "stop":
        assert broker.stop() in (0, 143)  # Kafka ends with 128 + SIGTERM
    else:
        broker.kill()
        broker.start()  # recovers
        broker.stop()
    assert len(partition_files(broker.data_dir, ".log")) > 10
    assert complaints(java, broker.data_dir) == []
    offsets = [path for path in partition_files(broker.data_dir, ".log") if "__consumer_offsets" in str(path)]
    decoded = java.tool("DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, offsets))).check().out
    assert "watchers" in decoded and "segments" in decoded and "42" in decoded
    damage(next(path for path in partition_files(broker.data_dir, ".log") if "mixed-0" in str(path)))
    assert complaints(java, broker.data_dir), "the tool would not notice a thing"


def damage(file: Path) -> None:
    """Flip one bit of the last record."""
    data = bytearray(file.read_bytes())
    data[-10] ^= 1
    file.write_bytes(data)


@pytest.fixture
def kafka_then_kwire(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """Apache Kafka, started, and kwire on the same directory, not yet started."""
    kafka = make_broker("kafka", tmp_path / "kafka")
    kwire = make_broker("kwire", tmp_path / "kwire", data_dir=kafka.data_dir)
    kafka.start()
    yield kafka, kwire
    kafka.kill()
    kwire.kill()


def everything(bootstrap: str, driver: Callable[[str], Driver]) -> dict[str, list[Got]]:
    """All records of all topics that are not compacted."""
    shapes = {"mixed": len(CODECS), "segments": 2, "stamped": 1}
    return {topic: driver("confluent").consume(bootstrap, topic, range(count)) for topic, count in shapes.items()}


def topic_ids(bootstrap: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    names = ["compacted", "mixed", "segments", "stamped"]
    described = admin.describe_topics(TopicCollection(names))
    return {name: str(described[name].result(20).topic_id) for name in names}


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_kwire_serves_a_directory_that_kafka_wrote(
    kafka_then_kwire: tuple[Broker, Broker], driver: Callable[[str], Driver], how: str
) -> None:
    kafka, kwire = kafka_then_kwire
    keep_busy(kafka.bootstrap, driver)
    before: dict[str, Any] = {
        "records": everything(kafka.bootstrap, driver),
        "ids": topic_ids(kafka.bootstrap),
        "commits": committed(kafka.bootstrap, "watchers", ["mixed", "segments"]),
    }
    if how == "stop":
        kafka.stop()
    else:
        kafka.kill()
    adopted = subprocess.run(
        [sys.executable, "-m", "kwire", "adopt", str(kafka.data_dir)], capture_output=True, text=True, check=False
    )
    assert adopted.returncode == 0, adopted.stderr
    kwire.start()
    after = {
        "records": everything(kwire.bootstrap, driver),
        "ids": topic_ids(kwire.bootstrap),
        "commits": committed(kwire.bootstrap, "watchers", ["mixed", "segments"]),
    }
    assert after == before
    end = len([one for one in before["records"]["mixed"] if one.partition == 0])
    assert driver("kafka-python").produce(kwire.bootstrap, "mixed", [Sent(0, b"k", b"goes on")]) == [(0, end)]
    commit(kwire.bootstrap, "watchers", {"mixed": end + 1})
    kwire.restart()
    assert committed(kwire.bootstrap, "watchers", ["mixed"]) == [("mixed", end + 1, "note")]
    assert driver("aiokafka").consume(kwire.bootstrap, "mixed", [0])[-1].value == b"goes on"
