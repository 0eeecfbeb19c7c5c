"""Three brokers on one host (`kwire start --brokers 3`): leaders are killed, transactions span brokers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.topics import create_topic

READY_S = 60
SETTLE_S = 60


class Cluster:
    """The processes. ``bootstrap``: the addresses of all brokers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "kwire", "start", "--brokers", "3", "--restart"]
        command += ["--listen", "localhost:0", "--data-dir", str(directory)]
        self.log = (directory / "log").open("wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("kwire ready "), (directory / "log").read_text()
        self.bootstrap = dict(word.split("=", 1) for word in line.split()[2:])["bootstrap"]

    def pid(self, node_id: int) -> int:
        """The process id of one broker, a child of the command."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if f"node.id={node_id}".encode() in words:
                return int(child)
        raise AssertionError(f"no broker {node_id} among {children}")

    def status(self, address: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kwire", "cluster", "status", address]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def wait_until_well(self) -> None:
        """Wait until all brokers are registered and all replicas are in sync."""
        end = time.monotonic() + SETTLE_S
        addresses = self.bootstrap.split(",")
        while (shown := self.status(addresses[0])).returncode or shown.stdout.count("localhost:") < len(addresses):
            assert time.monotonic() < end, shown.stdout + shown.stderr
            time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.process.terminate()
    assert made.process.wait(60) == 0, (made.directory / "log").read_text()[-3000:]
    made.log.close()


def create(cluster: Cluster, name: str, partitions: int) -> None:
    topic = NewTopic(name, num_partitions=partitions, replication_factor=3, config={"min.insync.replicas": "2"})
    create_topic(AdminClient({"bootstrap.servers": cluster.bootstrap}), topic)


def leader_of(cluster: Cluster, topic: str, partition: int) -> int:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, timeout=20)
    return int(metadata.topics[topic].partitions[partition].leader)


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    """The first ``count`` committed values, and any that follow within a second."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found.append(message.value() or b"")
        elif len(found) >= count:
            break
    consumer.close()
    return found


def test_killed_leaders_lose_nothing_and_come_back(cluster: Cluster) -> None:
    create(cluster, "killed", 3)
    cluster.wait_until_well()
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    sent = []
    for round_ in range(3):
        for number in range(500):
            value = b"%d-%d" % (round_, number)
            producer.produce("killed", value, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
            sent.append(value)
            producer.poll(0)
            if number == 250:
                os.kill(cluster.pid(leader_of(cluster, "killed", round_)), signal.SIGKILL)
        assert producer.flush(SETTLE_S) == 0
        cluster.wait_until_well()
    assert not failed
    assert sorted(read(cluster, "killed", len(sent))) == sorted(sent)


def test_transactions_span_brokers(cluster: Cluster) -> None:
    create(cluster, "spanned", 6)
    cluster.wait_until_well()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "spanning"})
    producer.init_transactions(SETTLE_S)
    committed = []
    for number in range(9):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, partition) for partition in range(6)]
        for partition, value in enumerate(values):
            producer.produce("spanned", value, partition=partition)
        if number % 3 == 2:
            producer.abort_transaction(SETTLE_S)
        else:
            producer.commit_transaction(SETTLE_S)
            committed += values
    assert sorted(read(cluster, "spanned", len(committed))) == sorted(committed)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "positions"})
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [TopicPartition("spanned", 0, 3)], consumer.consumer_group_metadata(), SETTLE_S
    )
    producer.commit_transaction(SETTLE_S)
    assert consumer.committed([TopicPartition("spanned", 0)], timeout=SETTLE_S)[0].offset == 3
    consumer.close()
