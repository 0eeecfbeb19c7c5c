"""Measure start-up with data: after a kill (logs are recovered) and after an orderly stop, beside Apache Kafka.

    .venv/bin/python -m tools.measure_recovery [--gib 10] [--partitions 2000] [--rounds 2] [--dir DIR] [--no-kafka]

Two data directories per broker, with the same log files (batches of 16 KiB, an idempotent producer):

- few large partitions: one segment of a GiB each, none of it below a recovery point, so that all of it is checked after
  a kill; and the same with a MiB each, to see whether an orderly start grows with the data;
- many small partitions of ten batches each.

The topics are created by request. Then the broker is killed, the log files are put into place, and it is started twice:
once as after the kill, once after an orderly stop. Kafka's on-disk format is kwire's, so
one `.log` file serves all partitions of both by hard links (no recovery changes it; that is checked) and lies in the
page cache: what is compared is the work, not the disk. Start to ready: the group coordinator answers. Of the rounds the
least time counts; the start on an empty directory is told beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness.processes.brokers import Broker, KafkaBroker, KwireBroker, wait_until
from kwire.codec.records import Record, build_batch, parse_header, patch_offsets
from kwire.codec.records.header import seal

BATCH_BYTES = 16 * 1024
TIMEOUT_S = 600.0
SETTINGS = {"log.segment.bytes": str(1 << 30), "log.retention.ms": "-1", "auto.create.topics.enable": "false"}


def build_log(path: Path, size: int, batch_bytes: int = BATCH_BYTES) -> None:
    """Write a `.log` file of about ``size`` bytes: full batches of one idempotent producer."""
    now_ms = time.time_ns() // 1_000_000
    records = [Record(timestamp=now_ms, key=b"key-%d" % i, value=os.urandom(1000)) for i in range(batch_bytes // 1024)]
    template = bytearray(build_batch(records, producer_id=1000, producer_epoch=0, base_sequence=0))
    count = parse_header(template).count
    with open(path, "wb") as file:
        for offset in range(0, size // len(template) * count, count):
            template[53:57] = (offset & 0x7FFFFFFF).to_bytes(4, "big")  # base sequence
            seal(template, 0, len(template))
            patch_offsets(template, 0, offset, 0)
            file.write(template)


def create_topic(broker: Broker, topic: str, partitions: int) -> None:
    """Create a topic, and wait until all its logs exist."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=120)[topic].result(180)
    wait_until(
        lambda: len(list(broker.data_dir.glob(f"{topic}-*/partition.metadata"))) == partitions, 180, "the partitions"
    )


def put_into_place(broker: Broker, topic: str, log: Path) -> None:
    """Give every partition of a topic the same segment, without indexes, as if they had not been flushed."""
    for directory in broker.data_dir.glob(f"{topic}-*"):
        for old in directory.glob("0*"):
            old.unlink()
        os.link(log, directory / f"{0:020d}.log")
        for index in ("index", "timeindex"):
            (directory / f"{0:020d}.{index}").touch()


def timed_start(broker: Broker) -> float:
    """Start a broker; return how many seconds it took to be ready."""
    started = time.perf_counter()
    broker.start()
    return round(time.perf_counter() - started, 2)


def measure(kind: type[Broker], home: Path, topic: str, partitions: int, log: Path) -> dict[str, float]:
    """Seconds of a start on an empty directory, after a kill, and after an orderly stop."""
    broker = kind(home, SETTINGS)
    broker.start_timeout_s = broker.stop_timeout_s = TIMEOUT_S
    before = log.stat()
    try:
        found = {"empty": timed_start(broker)}
        create_topic(broker, topic, partitions)
        broker.kill()
        put_into_place(broker, topic, log)
        found["after a kill"] = timed_start(broker)
        began = time.perf_counter()
        broker.stop()
        found["orderly stop"] = round(time.perf_counter() - began, 2)
        found["after an orderly stop"] = timed_start(broker)
        assert_is_there(broker, topic, partitions, log)
    finally:
        broker.kill()
        shutil.rmtree(home, ignore_errors=True)
    after = log.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns), f"{log} was changed"
    return found


def assert_is_there(broker: Broker, topic: str, partitions: int, log: Path) -> None:
    """Check that every partition has the log end offset of the file."""
    from confluent_kafka import Consumer, TopicPartition

    with open(log, "rb") as file:
        size = parse_header(file.read(BATCH_BYTES * 2)).size
        file.seek(log.stat().st_size - size)
        end = parse_header(file.read(size)).next_offset
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "measure"})
    try:
        for number in (0, partitions // 2, partitions - 1):
            bounds = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)
            assert bounds == (0, end), f"{topic}-{number}: {bounds}, not (0, {end})"
    finally:
        consumer.close()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=10, help="large partitions, of a GiB each")
    parser.add_argument("--partitions", type=int, default=2000, help="small partitions")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dir", type=Path, help="where the data goes (default: a temporary directory)")
    parser.add_argument("--no-kafka", action="store_true", help="measure kwire only")
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="kwire-recovery-", dir=arguments.dir))
    kinds: list[type[Broker]] = [KwireBroker] if arguments.no_kafka else [KwireBroker, KafkaBroker]
    scenarios = []
    if arguments.gib:
        scenarios += [
            (f"{arguments.gib} partitions of 1 MiB", arguments.gib, 1 << 20, BATCH_BYTES),
            (f"{arguments.gib} partitions of 1 GiB", arguments.gib, (1 << 30) - (1 << 20), BATCH_BYTES),
        ]
    if arguments.partitions:
        scenarios.append((f"{arguments.partitions} partitions of 10 batches", arguments.partitions, 20_480, 2048))
    try:
        for name, partitions, size, batch_bytes in scenarios:
            log = home / "source.log"
            build_log(log, size, batch_bytes)
            rounds: dict[str, list[dict[str, float]]] = {kind.kind: [] for kind in kinds}
            for number in range(arguments.rounds):
                for kind in kinds:
                    rounds[kind.kind].append(measure(kind, home / f"{kind.kind}-{number}", "t", partitions, log))
            for kind in kinds:
                steps = rounds[kind.kind]
                least = {step: min(each[step] for each in steps) for step in steps[0]}
                spread = {step: statistics.median(each[step] for each in steps) for step in steps[0]}
                print(json.dumps({"data": name, "broker": kind.kind, "seconds": least, "median": spread}), flush=True)
            log.unlink()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
