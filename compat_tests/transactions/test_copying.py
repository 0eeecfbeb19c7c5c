"""Exactly once: a topic copied in transactions while the copier, and the broker, are killed. The output is the input.

Only kwire is put to this: that Apache Kafka does it is known. It is a campaign, run with ``KWIRE_COPY_RECORDS=3000`` or
more: how long clients take to come back after a kill is theirs to choose, and librdkafka at times does not.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import Broker, wait_until
from compat_tests.conftest import need
from compat_tests.java_runner import java_class_path
from compat_tests.kafka_jars import java_command, why_no_java

RECORDS = int(os.environ.get("KWIRE_COPY_RECORDS", "3000"))
PER_TRANSACTION = 100 if RECORDS < 50_000 else 750
PARTITIONS = 2
STALL_S = 25
"""A copier without progress for so long is killed, too: librdkafka, when the broker has come back, at times stays
between AddOffsetsToTxn and FindCoordinator for the group, with no request outstanding."""


class Copier:
    """The process that copies; started anew whenever it is gone."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def keep_running(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with open(self._log, "ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _command(client: str, broker: Broker, source: str, target: str) -> list[str]:
    arguments = [broker.bootstrap, source, target, f"group-{source}", str(PER_TRANSACTION)]
    if client.startswith("java"):
        need(why_no_java())
        protocol = client.partition("-")[2] or "classic"
        return java_command("-cp", java_class_path(), "Copier", *arguments, protocol)
    return [sys.executable, "-m", "compat_tests.transactions.copier", client, *arguments]


def _fill(broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


class Output:
    """What a read_committed consumer has delivered so far, by partition."""

    def __init__(self, broker: Broker, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer = Consumer({
            "bootstrap.servers": broker.bootstrap, "group.id": "output", "isolation.level": "read_committed",
            "enable.auto.commit": False,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def look(self) -> int:
        """How many there are."""
        for record in self._consumer.consume(1000, 0.2):
            if record.error() is None:
                self.values[record.partition()].append(record.value())
        return sum(map(len, self.values.values()))

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka", "java", "java-consumer"])
def test_the_copy_is_the_original(
    client: str, broker_kind: str, broker_factory: Callable[..., Broker], new_name: Any, tmp_path: Path
) -> None:
    if broker_kind == "kafka":
        pytest.skip("what is tested here is kwire")
    if "KWIRE_COPY_RECORDS" not in os.environ:
        pytest.skip("a campaign: set KWIRE_COPY_RECORDS to the number of records")
    from confluent_kafka.admin import AdminClient, NewTopic

    chance = random.Random(os.environ.get("KWIRE_COPY_SEED", "1"))
    broker = broker_factory({"group.initial.rebalance.delay.ms": "0"})
    source, target = new_name("source"), new_name("target")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (source, target)]).values():
        future.result(30)
    _fill(broker, source)
    copier = Copier(_command(client, broker, source, target), tmp_path / "copier.log")
    output = Output(broker, target)
    try:
        seen, kills, next_kill = 0, 0, RECORDS // 8
        progress = time.monotonic()
        deadline = time.monotonic() + 300 + RECORDS / 50
        while seen < RECORDS:
            assert time.monotonic() < deadline, (seen, copier.starts, (tmp_path / "copier.log").read_text()[-3000:])
            copier.keep_running()
            before, seen = seen, output.look()
            if seen > before:
                progress = time.monotonic()
            elif time.monotonic() - progress > STALL_S:
                copier.kill()
                progress = time.monotonic()
            if seen >= next_kill and kills < 6:
                kills += 1
                next_kill = seen + chance.randrange(RECORDS // 8) + 1
                if kills % 3 == 0:
                    broker.kill()
                    broker.start()
                else:
                    copier.kill()
        wait_until(lambda: output.look() == RECORDS, 5, "no more than the input")
    finally:
        copier.kill()
        output.close()
    for index, values in output.values.items():
        assert values == [b"%d" % number for number in range(RECORDS) if number % PARTITIONS == index]
