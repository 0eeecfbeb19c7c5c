"""``__consumer_offsets`` itself: Kafka's tools read kwire's records, and each broker continues with the other's log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.comparisons.groups.script import LONG_MS, Script, commit, fetch, heartbeat, join, leave, sync
from harness.kafka_jars import java_command, kafka_classpath
from harness.processes.brokers import Broker, make_broker
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest

pytestmark = pytest.mark.java

GROUPS = ("worker", "static", "simple", "left", "gone", "assigning")


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[list[Broker]]:
    """Brokers for this test only, killed at its end."""
    brokers: list[Broker] = []
    yield brokers
    for broker in brokers:
        broker.kill()


def started(brokers: list[Broker], kind: str, home: Path, data_dir: Path | None = None) -> Broker:
    broker = make_broker(kind, home, {"offsets.topic.num.partitions": "3"}, data_dir)
    brokers.append(broker)
    broker.start()
    return broker


def make_history(script: Script) -> dict[str, Any]:
    """Create groups of every kind, and delete some of them."""
    for group in GROUPS:
        script.ready(group)
    script.topic("tt")
    members: dict[str, Any] = {}
    for group in ("worker", "left"):
        members[group] = member = script.client(group).call(join(group), 3)
        script.client(group).call(sync(group, member, {member.member_id: b"all"}), 3)
        me = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
        for offset in (1, 2, 30):
            script.client().call(commit(group, {("tt", 0): offset, ("tt", 1): offset + 1}, **me), 9)
    script.client().call(leave("left", (members["left"].member_id, None)), 5)
    member = script.client().call(join("static", instance="i"), 9)
    script.client().call(sync("static", member, {member.member_id: b"all"}, group_instance_id="i"), 5)
    members["static"] = script.client().call(join("static", instance="i"), 9)
    script.client().call(commit("simple", {("tt", 0): 7}, retention_time_ms=LONG_MS), 4)
    script.client().call(commit("simple", {("tt", 1): 8}, metadata="\u00e4\U0001f600"), 8)
    script.client().call(commit("gone", {("tt", 0): 9}), 8)
    script.client().call(DeleteGroupsRequest(groups_names=["gone"]), 2)
    script.client().call(join("assigning"), 3)
    return members


def picture(script: Script) -> list[Any]:
    """The groups as clients see them."""
    script.seen.clear()
    for group in GROUPS:
        script.ready(group)
        if group != "assigning":  # a join in progress is not in the log
            script.describe(group, group)
        script.call(group, fetch(8, group, None), 8)
    return list(script.seen)


def go_on(script: Script, members: dict[str, Any]) -> None:
    """The members continue on the other broker."""
    worker, static = members["worker"], members["static"]
    assert script.client().call(heartbeat("worker", worker.member_id, 1), 4).error_code == 0
    assert script.client().call(sync("worker", worker), 3).assignment == b"all"
    me = {"member_id": worker.member_id, "generation_id_or_member_epoch": 1}
    response = script.client().call(commit("worker", {("tt", 0): 99}, **me), 9)
    assert response.topics[0].partitions[0].error_code == 0
    assert script.client().call(heartbeat("static", static.member_id, 1, "i"), 4).error_code == 0
    back = script.client().call(join("static", instance="i"), 9)
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert script.client().call(join("worker", worker.member_id), 9).generation_id == 2


def test_kwire_goes_on_with_the_groups_of_kafka(homes: list[Broker], tmp_path: Path) -> None:
    kafka = started(homes, "kafka", tmp_path / "kafka")
    with Script(kafka) as script:
        members = make_history(script)
        before = picture(script)
        script.close()
        kafka.stop()
        subprocess.run([sys.executable, "-m", "kwire", "adopt", str(kafka.data_dir)], check=True)
        script.broker = started(homes, "kwire", tmp_path / "kwire", kafka.data_dir)
        assert picture(script) == before
        go_on(script, members)


def test_kafka_goes_on_with_the_groups_of_kwire(homes: list[Broker], tmp_path: Path) -> None:
    kwire = started(homes, "kwire", tmp_path / "kwire")
    with Script(kwire) as script:
        members = make_history(script)
        before = picture(script)
        script.close()
        kwire.stop()
        kafka = started(homes, "kafka", tmp_path / "kafka")
        script.broker = kafka
        script.ready("worker")
        script.topic("tt")
        script.close()
        kafka.stop()
        for index in range(3):
            give_log(kwire.data_dir, kafka.data_dir, f"__consumer_offsets-{index}")
        kafka.start()
        assert picture(script) == before
        go_on(script, members)


def give_log(source: Path, target: Path, partition: str) -> None:
    """Replace one broker's segments by the other's, and start it, so that it recovers them."""
    for old in (target / partition).iterdir():
        if old.name != "partition.metadata":
            old.unlink()
    for segment in (source / partition).glob("*.log"):
        shutil.copy(segment, target / partition)
    for checkpoint in target.glob("*-checkpoint"):
        if not checkpoint.name.startswith("log-start"):
            checkpoint.unlink(missing_ok=True)
    (target / ".kafka_cleanshutdown").unlink(missing_ok=True)


def test_kafkas_dump_tool_reads_the_records_of_kwire(homes: list[Broker], tmp_path: Path) -> None:
    kwire = started(homes, "kwire", tmp_path / "kwire")
    with Script(kwire) as script:
        make_history(script)
    kwire.stop()
    files = ",".join(str(path) for path in sorted(kwire.data_dir.glob("__consumer_offsets-*/*.log")))
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--deep-iteration", "--files", files]
    done = subprocess.run(
        java_command("-cp", kafka_classpath(), *tool), capture_output=True, text=True, check=True, timeout=300
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("| offset")]
    assert len(lines) > 20
    assert all('key: {"type":' in line and "payload: " in line for line in lines)
    assert "isvalid: false" not in done.stdout
    assert any('"group":"static"' in line and '"groupInstanceId":"i"' in line for line in lines)
    assert any('"group":"simple"' in line and '"expireTimestamp"' in line for line in lines)
    assert any('"group":"gone"' in line and "payload: <DELETE>" in line for line in lines)
