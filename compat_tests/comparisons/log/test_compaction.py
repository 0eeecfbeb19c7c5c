"""The log cleaners of both brokers retain the same data: segments, batch headers, records, markers.

Each cleaning is one round over the whole dirty part: the topic's `min.cleanable.dirty.ratio` is 1 while data is written
and 0 for the cleaner. The comparison leaves out what differs by nature: the time of a delete horizon, and compressed
bytes.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from compat_tests.comparisons.data.requests import Topic
from compat_tests.comparisons.log.test_files_on_disk import dump
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient
from kwire.base.doors import Doors
from kwire.codec.records import ABORT, COMMIT, Record, build_batch, build_control_batch, iter_headers, iter_records
from kwire.log.common.append_info import Origin
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.opening import open_log
from kwire.log.partition.partition_log import PartitionLog

pytestmark = pytest.mark.java

TIME_MS = 1_700_000_000_000
SEGMENT_BYTES = 2000
BROKER = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
}
TOPIC = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "index.interval.bytes": "300",
    "min.cleanable.dirty.ratio": "1.0",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}


class CompactedTopic:
    """A topic of one partition on a separate broker."""

    def __init__(self, broker: Broker, name: str = "compacted") -> None:
        self.broker = broker
        self.name = name
        self.folder = broker.data_dir / f"{name}-0"
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def create(self, **configs: str) -> None:
        new = NewTopic(self.name, num_partitions=1, replication_factor=1, config={**TOPIC, **configs})
        self._admin.create_topics([new], operation_timeout=30)[self.name].result(30)

    def alter(self, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def _alter_and_wait(self, name: str, value: str) -> None:
        """Wait until the broker knows the change, too: Apache Kafka's answer may come before."""
        self.alter(name, value)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name)

        def is_known() -> bool:
            found: str = self._admin.describe_configs([resource])[resource].result(30)[name].value
            return found == value

        wait_until(is_known, 60, f"{name}={value}")

    def clean(self) -> None:
        """Let the cleaner make one round."""
        end = max(int(path.stem) for path in self.folder.glob("*.log"))
        self.alter("min.cleanable.dirty.ratio", "0.0")
        checkpoint = self.broker.data_dir / "cleaner-offset-checkpoint"

        def is_clean() -> bool:
            return checkpoint.exists() and f"{self.name} 0 {end}" in checkpoint.read_text().splitlines()

        wait_until(is_clean, 60, f"{self.name} cleaned up to {end}")
        self._alter_and_wait("min.cleanable.dirty.ratio", "1.0")
        # Apache Kafka describes a change before its logs know it, and takes up one change after the other.
        self._alter_and_wait("flush.messages", str(2**62 + end))
        wait_until(lambda: not list(self.folder.glob("*.deleted")), 30, "old files removed")

    def produce(self, batches: Iterable[bytes]) -> None:
        with WireClient(self.broker.bootstrap) as client:
            topic = Topic(client, self.name)
            for batch in batches:
                response = topic.produce(batch)
                assert response["error_code"] == 0, response


def what_is_there(folder: Path) -> list[dict[str, Any]]:
    """The segments of a partition: sizes of their files, and every batch."""
    found = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        batches = [batch_facts(data[at : at + header.size]) for at, header in iter_headers(data)]
        found.append({"segment": path.stem, "batches": batches})
    return found


def batch_facts(data: bytes) -> dict[str, Any]:
    ((_, header),) = iter_headers(data)
    facts: dict[str, Any] = dict(zip(header._fields, header, strict=True))
    del facts["crc"], facts["magic"]
    facts["partition_leader_epoch"] = min(facts["partition_leader_epoch"], 1)  # Apache Kafka's restart takes two
    if header.compression:
        del facts["length"]
    if header.delete_horizon_ms is not None:
        del facts["base_timestamp"]
        facts.pop("length", None)
    facts["records"] = [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for each in iter_records(data, max_bytes=1 << 20)
    ]
    return facts


def index_entries(folder: Path, suffix: str, size: int) -> dict[str, list[bytes]]:
    """The entries of the sealed segments' indexes."""
    paths = sorted(folder.glob(f"*.{suffix}"))[:-1]
    found = {path.stem: path.read_bytes() for path in paths}
    return {name: [data[at : at + size] for at in range(0, len(data), size)] for name, data in found.items()}


def some_batches(seed: int, count: int, *, compressions: tuple[int, ...] = (0,)) -> Iterable[bytes]:
    """Updates, tombstones, idempotent producers, headers, and timestamps that are not in order."""
    chance = random.Random(seed)
    sequences = {1000: 0, 1001: 0}
    for i in range(count):
        records = [
            Record(
                timestamp=TIME_MS + chance.randint(-5000, 5000),
                key=b"key-%d" % chance.randint(0, 30) if chance.random() < 0.9 else b"long" * 20,
                value=None if chance.random() < 0.1 else chance.randbytes(chance.randint(0, 60)),
                headers=[("h", b"1"), ("none", None)] if chance.random() < 0.2 else [],
            )
            for _ in range(chance.randint(1, 6))
        ]
        how: dict[str, Any] = {"compression": chance.choice(compressions)}
        if i < count // 2 and i % 3 == 0:  # their last batches will be superseded, but the headers must be retained
            producer = chance.choice((1000, 1001)) + seed * 10
            sequences[producer - seed * 10] += len(records)
            sequence = sequences[producer - seed * 10] - len(records)
            how |= {"producer_id": producer, "producer_epoch": 2, "base_sequence": sequence}
        yield build_batch(records, **how)


@pytest.mark.parametrize("compressions", [(0,), (0, 1, 2, 3, 4)], ids=["plain", "compressed"])
def test_what_is_left_of_updates_is_equal(
    broker_factory: Callable[..., Broker], observe: Observations, java: JavaRunner, compressions: tuple[int, ...]
) -> None:
    broker = broker_factory(settings=BROKER)
    topic = CompactedTopic(broker)
    topic.create()
    for round_number in range(3):
        topic.produce(some_batches(round_number, 120, compressions=compressions))
        before = sum(len(segment["batches"]) for segment in what_is_there(topic.folder))
        topic.clean()
        left = what_is_there(topic.folder)
        assert sum(len(segment["batches"]) for segment in left) < before
        observe(f"round {round_number}", left)
    if compressions == (0,):
        observe("offset indexes", index_entries(topic.folder, "index", 8))
        observe("time indexes", index_entries(topic.folder, "timeindex", 12))
    kinds = [batch["count"] for segment in left for batch in segment["batches"]]
    assert 0 in kinds and any(kinds)
    broker.stop()
    accepted(java, topic.folder, observe)


def accepted(java: JavaRunner, folder: Path, observe: Observations) -> None:
    """DumpLogSegments must accept the files, but for time index entries that point to a batch without records: about
    these it also complains in Kafka's own files, and the complaints must be the same."""
    dump(java, folder, "*.log", "--deep-iteration", "--print-data-log")
    dump(java, folder, "*.index", "--index-sanity-check")
    dump(java, folder, "*.timeindex", "--index-sanity-check")
    dump(java, folder, "*.index")
    files = ",".join(sorted(map(str, folder.glob("*.timeindex"))))
    out = java.tool("DumpLogSegments", "--files", files).check().out.replace(str(folder), "")
    observe("time indexes as the tool sees them", out.splitlines())


def transactional_log(folder: Path) -> PartitionLog:
    """Transactions of several producers over several segments, committed and aborted, some of them interleaved."""
    config = LogConfig(internal_segment_bytes=SEGMENT_BYTES, index_interval_bytes=300)
    log = open_log(LogEnvironment.create(Doors()), f"{folder}/t-0", "t", 0, bytes(16), config)
    chance = random.Random(5)
    sequences: dict[int, int] = {}
    open_now: dict[int, None] = {}

    def write(producer: int, *, transactional: bool) -> None:
        count = chance.randint(1, 4)
        records = [
            Record(
                timestamp=TIME_MS + chance.randint(0, 999),
                key=b"key-%d" % chance.randint(0, 15),
                value=chance.randbytes(30),
            )
            for _ in range(count)
        ]
        how: dict[str, Any] = {}
        if transactional:
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + count
            how = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
        log.append_as_leader(bytearray(build_batch(records, **how)), leader_epoch=0)

    def end(producer: int) -> None:
        marker = build_control_batch(
            chance.choice((COMMIT, ABORT)),
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=TIME_MS,
        )
        log.append_as_leader(bytearray(marker), leader_epoch=0, origin=Origin.COORDINATOR)
        del open_now[producer]

    for i in range(300):
        producer = 2000 + chance.randint(0, 3) + i // 100 * 10
        if chance.random() < 0.3:
            write(-1, transactional=False)
        elif producer in open_now and chance.random() < 0.4:
            end(producer)
        else:
            open_now[producer] = None
            write(producer, transactional=True)
        log.advance_high_watermark(log.log_end_offset)
    for producer in list(open_now):
        end(producer)
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_what_is_left_of_transactions_is_equal(
    broker_factory: Callable[..., Broker], observe: Observations, java: JavaRunner, tmp_path: Path
) -> None:
    broker = broker_factory(settings=BROKER)
    topic = CompactedTopic(broker)
    topic.create()
    topic.produce(some_batches(1, 1))
    broker.stop()
    transactional_log(tmp_path).close()
    for path in [*topic.folder.glob("0*"), *topic.folder.glob("leader-epoch-checkpoint")]:
        path.unlink()
    for path in [*(tmp_path / "t-0").glob("0*"), *(tmp_path / "t-0").glob("leader-epoch-checkpoint")]:
        shutil.copy(path, topic.folder / path.name)
    broker.start()
    for round_number in range(3):
        topic.clean()
        left = what_is_there(topic.folder)
        observe(f"round {round_number}", left)
        observe(
            f"aborted {round_number}",
            {path.stem: path.read_bytes() for path in topic.folder.glob("*.txnindex") if path.stat().st_size},
        )
        topic.produce(some_batches(round_number + 10, 30))
    broker.stop()
    accepted(java, topic.folder, observe)


def test_committed_offsets_survive_the_compaction_of_their_log(
    broker_factory: Callable[..., Broker], observe: Observations
) -> None:
    """The group coordinator loads a log with gaps."""
    broker = broker_factory(settings={**BROKER, "offsets.topic.num.partitions": "1"})
    plain = CompactedTopic(broker, "plain")
    plain.create()
    groups = [Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"group-{i}"}) for i in range(3)]
    commit(groups, 0)
    offsets = CompactedTopic(broker, "__consumer_offsets")
    offsets.alter("min.cleanable.dirty.ratio", "1.0")
    offsets.alter("internal.segment.bytes", str(SEGMENT_BYTES))
    for value in range(1, 100):
        commit(groups, value)
    before = sum(path.stat().st_size for path in offsets.folder.glob("*.log"))
    offsets.clean()
    assert sum(path.stat().st_size for path in offsets.folder.glob("*.log")) < before / 2
    broker.restart()
    found = [[each.offset for each in group.committed([TopicPartition("plain", 0)], timeout=30)] for group in groups]
    for group in groups:
        group.close()
    observe("committed", found)
    assert found == [[99], [109], [119]]


def commit(groups: list[Consumer], value: int) -> None:
    for i, group in enumerate(groups):
        group.commit(offsets=[TopicPartition("plain", 0, value + 10 * i)], asynchronous=False)
