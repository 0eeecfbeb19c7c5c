"""Kafka's DumpLogSegments accepts the files that kwire writes, and kwire reads the files that Apache Kafka writes."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.java_runner import JavaRunner
from harness.processes.brokers import Broker
from kwire.base.doors import Doors, Files
from kwire.codec.records import ABORT, COMMIT, Record, build_batch, build_control_batch, iter_headers, iter_records
from kwire.log.common.append_info import Origin
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.manager.adopt import inspect_data_directory
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.opening import open_log
from kwire.log.partition.partition_log import PartitionLog

CONFIG = LogConfig(internal_segment_bytes=30_000, index_interval_bytes=1000, retention_ms=-1)
TOPIC_ID = b"0123456789abcdef"

# DumpLogSegments prints this for every segment that does not begin at offset 0, for Kafka's own segments as well.
FIRST_RECORD = re.compile(r"(Non-consecutive offsets in \S+\n)?^  -1 is followed by \d+$\n?", re.M)
COMPLAINTS = re.compile(r"mismatch|isvalid: false|not a valid|bytes are not|Non-?consecutive|corrupt|exception", re.I)


def busy_log(folder: Path, seed: int = 7, config: LogConfig = CONFIG) -> PartitionLog:
    """All compression types, idempotent and transactional producers, epochs, and timestamps that are not in order."""
    chance = random.Random(seed)
    log = open_log(LogEnvironment.create(Doors()), f"{folder}/t-0", "t", 0, TOPIC_ID, config)
    now_ms = time.time_ns() // 1_000_000
    sequence = 0
    for i in range(400):
        count = chance.randint(1, 20)
        records = [
            Record(
                timestamp=now_ms - chance.randint(0, 10**6),
                key=b"k%d" % i,
                value=b"x" * chance.randint(0, 90),
            )
            for _ in range(count)
        ]
        how: dict[str, int | bool] = {"compression": chance.randint(0, 4)}
        if i % 3 == 0:
            how |= {"producer_id": 5, "producer_epoch": 1, "base_sequence": sequence}
            sequence += count
        elif i % 7 == 0:
            how |= {"producer_id": 100 + i, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        log.append_as_leader(bytearray(build_batch(records, **how)), leader_epoch=i // 90)  # type: ignore[arg-type]
        if i % 7 == 0 and i % 3:
            marker = build_control_batch(
                ABORT if i % 2 else COMMIT,
                producer_id=100 + i,
                producer_epoch=0,
                coordinator_epoch=3,
                timestamp=now_ms,
            )
            log.append_as_leader(marker, leader_epoch=i // 90, origin=Origin.COORDINATOR)
        log.advance_high_watermark(log.log_end_offset)
    return log


def dump(java: JavaRunner, folder: Path, pattern: str, *flags: str) -> str:
    files = sorted(str(path) for path in folder.glob(pattern))
    assert files, pattern
    result = java.tool("DumpLogSegments", "--files", ",".join(files), *flags).check()
    complaint = COMPLAINTS.search(FIRST_RECORD.sub("", result.out + result.err))
    assert complaint is None, f"{complaint} in {result.out[-3000:]}\n{result.err}"
    return result.out + result.err


def killed_and_recovered(folder: Path) -> PartitionLog:
    busy_log(folder).release()
    return open_log(LogEnvironment.create(Doors()), f"{folder}/t-0", "t", 0, TOPIC_ID, CONFIG, clean=False)


def truncated(folder: Path) -> PartitionLog:
    log = busy_log(folder)
    middle = log.segments[len(log.segments) // 2]
    found = middle.find(middle.base_offset + 200)
    assert found is not None
    log.truncate_to(found.base_offset)
    return log


@pytest.mark.java
@pytest.mark.parametrize("made", [busy_log, killed_and_recovered, truncated])
def test_kafka_accepts_every_file(tmp_path: Path, java: JavaRunner, made: Callable[[Path], PartitionLog]) -> None:
    log = made(tmp_path)
    segments, end = len(log.segments), log.log_end_offset
    assert segments >= 3
    log.close()
    folder = tmp_path / "t-0"
    deep = dump(java, folder, "*.log", "--deep-iteration", "--print-data-log")
    assert deep.count("baseOffset: ") + deep.count("endTxnMarker: ") > 200
    assert "isvalid: true" in deep
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", deep, re.M)]
    assert offsets == list(range(end))
    dump(java, folder, "*.index", "--index-sanity-check")
    dump(java, folder, "*.timeindex", "--index-sanity-check")
    dump(java, folder, "*.index", "--verify-index-only")
    dump(java, folder, "*.index")
    dump(java, folder, "*.timeindex")
    transactions = dump(java, folder, "*.txnindex")
    assert transactions.count("producerId: ") == len(log.aborted_transactions(0, end)) >= 10
    snapshots = dump(java, folder, "*.snapshot")
    assert "producerId: 5 producerEpoch: 1 coordinatorEpoch: -1" in snapshots


@pytest.mark.java
def test_indexes_are_accepted_while_the_log_is_being_written(tmp_path: Path, java: JavaRunner) -> None:
    log = busy_log(tmp_path)
    for pattern in ("*.index", "*.timeindex"):
        dump(java, tmp_path / "t-0", pattern, "--index-sanity-check")
    dump(java, tmp_path / "t-0", "*.log", "--deep-iteration")
    log.release()


@pytest.mark.java
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_directory_that_kafka_wrote_is_read_with_all_it_holds(tmp_path: Path, java: JavaRunner, clean: bool) -> None:
    from harness.processes.brokers import make_broker

    broker = make_broker("kafka", tmp_path / "kafka")
    broker.start()
    try:
        sent = _produce_everything(broker)
    finally:
        broker.stop() if clean else broker.kill()
    folder = _data_folder(Path(broker.data_dir))
    if clean:
        output = dump(java, folder / "kept-none-0", "*.log", "--deep-iteration")
        assert FIRST_RECORD.search(output), "DumpLogSegments prints it for Kafka's own segments as well"
    _read_back(folder, sent, clean)


def _data_folder(data_dir: Path) -> Path:
    return next(path.parent for path in data_dir.glob("**/meta.properties"))


def _produce_everything(broker: Broker) -> dict[str, list[bytes]]:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    kinds = ["none", "gzip", "snappy", "lz4", "zstd"]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = {"segment.index.bytes": "60", "index.interval.bytes": "100"}
    topics = [NewTopic(f"kept-{kind}", num_partitions=1, replication_factor=1, config=configs) for kind in kinds]
    for future in admin.create_topics(topics).values():
        future.result(30)
    sent: dict[str, list[bytes]] = {}
    for kind in kinds:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": kind,
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )
        sent[f"kept-{kind}"] = values = [b"%d-" % i + b"v" * (i % 300) for i in range(200)]
        for i, value in enumerate(values):
            producer.produce(f"kept-{kind}", value, key=b"key", headers=[("h", b"x")])
            if i % 10 == 9:
                producer.flush(30)
        assert producer.flush(30) == 0
    return sent


def _read_back(folder: Path, sent: dict[str, list[bytes]], clean: bool) -> None:
    found = inspect_data_directory(Files(), str(folder))
    assert found.clean_shutdown is clean
    assert set(sent) <= set(found.topics())
    assert found.meta is not None
    assert found.meta.cluster_id is not None

    async def check() -> None:
        logs = LogManager(Doors(), [str(folder)], lambda _topic: LogConfig(), ManagerSettings())
        logs.lock(found.meta.cluster_id, 1)  # type: ignore[union-attr,arg-type]
        await logs.load_all()
        for topic, values in sent.items():
            log = logs.get(topic, 0)
            assert log is not None
            assert log.topic_id == found.topics()[topic][0]
            assert (log.log_start_offset, log.log_end_offset) == (0, len(values))
            assert len(log.segments) > 1
            assert _values(log) == values
            (entry,) = log.producer_state.producers.values()
            assert entry.last_sequence == len(values) - 1
            last = log.offset_for_timestamp(log.max_timestamp().timestamp, upto=len(values))  # type: ignore[union-attr]
            assert last is not None
        await logs.close()

    asyncio.run(check())


def _values(log: PartitionLog) -> list[bytes]:
    values: list[bytes] = []
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, 10_000, upto=log.log_end_offset).records
        assert isinstance(data, bytes)
        for position, header in iter_headers(data, allow_partial=True):
            if header.base_offset >= offset:
                values += [
                    r.value or b"" for r in iter_records(data[position : position + header.size], max_bytes=1 << 20)
                ]
                offset = header.next_offset
    return values
