"""Streams groups in ``__consumer_offsets``: each broker continues with the other's log, and Kafka's tool reads it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.comparisons.groups.test_offsets_topic import give_log, started
from compat_tests.comparisons.streams_groups.member import Member
from harness.java_runner import JavaRunner
from harness.processes.brokers import Broker
from kwire.cli.record_decoders import plain

pytestmark = pytest.mark.java
PARTITIONS = 3
RECORD_TYPES = (17, 19, 20, 21, 22, 23)


@pytest.fixture
def homes() -> Iterator[list[Broker]]:
    """Brokers for this test only, killed at its end."""
    brokers: list[Broker] = []
    yield brokers
    for broker in brokers:
        broker.kill()


def create(broker: Broker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
        future.result(30)


def with_group(broker: Broker) -> Member:
    """A member that has its tasks, and has committed an offset."""
    create(broker, "t")
    member = Member(broker, "words", "t")
    member.join()
    member.commit(7)
    return member


def picture(member: Member) -> dict[str, Any]:
    """The group as it is in the log. Which partitions internal topics have is found out with the next heartbeat."""
    described: dict[str, Any] = plain(member.described())
    assert described["error_code"] == 0
    for subtopology in described["topology"]["subtopologies"]:
        for topic in (*subtopology["repartition_source_topics"], *subtopology["state_changelog_topics"]):
            topic["partitions"] = None
    return described


def test_kwire_goes_on_with_a_group_of_kafka(homes: list[Broker], tmp_path: Path) -> None:
    kafka = started(homes, "kafka", tmp_path / "kafka")
    member = with_group(kafka)
    before = picture(member)
    kafka.stop()
    subprocess.run([sys.executable, "-m", "kwire", "adopt", str(kafka.data_dir)], check=True)
    member.move(started(homes, "kwire", tmp_path / "kwire", kafka.data_dir))
    assert picture(member) == before
    assert member.go_on().status == []
    member.commit(8)
    member.leave()


def test_kafka_goes_on_with_a_group_of_kwire(homes: list[Broker], tmp_path: Path, java: JavaRunner) -> None:
    kwire = started(homes, "kwire", tmp_path / "kwire")
    member = with_group(kwire)
    before = picture(member)
    kwire.stop()
    files = ",".join(str(path) for path in sorted(kwire.data_dir.glob("__consumer_offsets-*/*.log")))
    dumped = java.tool("DumpLogSegments", "--offsets-decoder", "--deep-iteration", "--files", files).check().out
    assert all(f'key: {{"type":"{number}"' in dumped for number in RECORD_TYPES)
    kafka = started(homes, "kafka", tmp_path / "kafka")
    create(kafka, "t", "words-by-word-repartition", "words-counts-changelog")
    Member(kafka, "other", "t").described()
    kafka.stop()
    for index in range(PARTITIONS):
        give_log(kwire.data_dir, kafka.data_dir, f"__consumer_offsets-{index}")
    kafka.start()
    member.move(kafka)
    assert picture(member) == before
    assert member.go_on().status == []
    member.commit(8)
    member.leave()
