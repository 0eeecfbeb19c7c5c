"""Write a compacted topic while it is compacted and read, then compare the cleaner with Apache Kafka's.

    .venv/bin/python -m campaigns.compaction --count 10000000 --keys 100000 --seed 1

1. Updates are written while another process reads the topic from start to end, again and again. Produce latency is
   measured at a steady pace, first with the cleaner idle, then with the cleaner at work.
2. After the last cleaning, the topic's content is compared with a model: the last update of every key is there, at its
   offset, and all other records are unchanged. Apache Kafka's DumpLogSegments reports no problem.
3. The same updates are written to a new broker of each kind while the cleaner is held back. Then the cleaner starts:
   the time until everything is clean and the memory used are measured.

The n-th update is written at offset n and contains n, so a record that has moved or changed is noticed. The exit status
is 1 if anything is wrong. The numbers in docs/CAMPAIGNS.md are entered by hand.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import struct
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from campaigns.command_line import campaign_parser
from harness.inspection import process_usage
from harness.kafka_jars import why_no_java
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_headers, iter_records

NAME = "compacted"
TIME_MS = 1_700_000_000_000
VALUE_BYTES = 90
BULK_RECORDS = 500  # in a batch of the bulk phases, by default
PACED_RECORDS = 50
PACE_S = 0.01
STAMP = struct.Struct(">Q")


class Updates:
    """All updates: update n sets a key that the seed chooses to a value that begins with n."""

    def __init__(self, seed: int, count: int, keys: int, compression: int = 0) -> None:
        self.compression = compression
        chance = random.Random(seed)
        self.keys = array("L", (int(chance.random() * keys) for _ in range(count)))
        self.pool = random.Random(seed + 1).randbytes(1 << 16)

    def __len__(self) -> int:
        return len(self.keys)

    def record(self, n: int) -> Record:
        """Update n as the record at offset n, with ten updates in each millisecond."""
        return Record(offset=n, timestamp=TIME_MS + n // 10, key=b"key-%08d" % self.keys[n], value=self.value(n))

    def value(self, n: int) -> bytes:
        """The value of update n: n in eight bytes, then `VALUE_BYTES` random bytes that n chooses."""
        start = n * 7919 % (len(self.pool) - VALUE_BYTES)
        return STAMP.pack(n) + self.pool[start : start + VALUE_BYTES]

    def batch(self, first: int, count: int) -> bytes:
        """The bytes of a batch with ``count`` updates from ``first`` on, or with fewer if there are no more."""
        records = [self.record(n) for n in range(first, min(first + count, len(self)))]
        for record in records:
            record.offset = -1
        return build_batch(records, compression=self.compression)

    def last_of_keys(self) -> dict[int, int]:
        """The number of the last update of each key."""
        return {key: n for n, key in enumerate(self.keys)}


class Campaign:
    """One topic on one broker."""

    def __init__(self, kind: str, home: Path, updates: Updates, segment_bytes: int, batch_records: int) -> None:
        settings = {
            "log.cleaner.backoff.ms": "50",
            "log.initial.task.delay.ms": "100",
            "log.segment.delete.delay.ms": "1000",
        }
        self.broker: Broker = make_broker(kind, home, settings)
        self.updates = updates
        self.segment_bytes = segment_bytes
        self.batch_records = batch_records
        self.written = 0
        self.folder = self.broker.data_dir / f"{NAME}-0"

    def start(self) -> None:
        """Start the broker, create the topic, write the first update. `TimeoutError` if no write succeeds in time."""
        from confluent_kafka.admin import AdminClient, NewTopic

        self.broker.start()
        self._admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        config = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(self.segment_bytes),
            "min.cleanable.dirty.ratio": "1.0",
            "file.delete.delay.ms": "1000",
        }
        new = NewTopic(NAME, num_partitions=1, replication_factor=1, config=config)
        self._admin.create_topics([new], operation_timeout=30)[NAME].result(30)
        self.client = WireClient(self.broker.bootstrap)
        wait_until(lambda: self._produce(self.updates.batch(0, 1)) == 0, 20, "the partition leads")
        self.written = 1

    def set_ratio(self, ratio: float) -> None:
        """Set the topic's `min.cleanable.dirty.ratio`: how much must be dirty before the cleaner starts."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entry = ConfigEntry("min.cleanable.dirty.ratio", str(ratio), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, NAME, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def _produce(self, batch: bytes) -> int:
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name=NAME, partition_data=[data])]
        )
        return int(self.client.call(request, 9).responses[0].partition_responses[0].error_code)

    def write(self, count: int) -> None:
        """Write the next ``count`` updates, or as many as are left. `AssertionError` if the response has an error."""
        end = min(self.written + count, len(self.updates))
        while self.written < end:
            size = min(self.batch_records, end - self.written)
            error = self._produce(self.updates.batch(self.written, size))
            assert error == 0, error
            self.written += size

    def write_paced(self, seconds: float) -> list[float]:
        """Write small batches at a steady pace; return how many seconds each took, ascending."""
        taken = []
        begin = time.perf_counter()
        for i in range(int(seconds / PACE_S)):
            size = min(PACED_RECORDS, len(self.updates) - self.written)
            if size == 0:
                break
            batch = self.updates.batch(self.written, size)
            time.sleep(max(begin + i * PACE_S - time.perf_counter(), 0.0))
            begun = time.perf_counter()
            error = self._produce(batch)
            taken.append(time.perf_counter() - begun)
            assert error == 0, error
            self.written += size
        return sorted(taken)

    def active_base(self) -> int:
        """The base offset of the active segment, from the names of the files."""
        return max(int(path.stem) for path in self.folder.glob("*.log"))

    def is_clean(self) -> bool:
        """Whether the cleaner's checkpoint is at the active segment: everything before it is clean."""
        checkpoint = self.broker.data_dir / "cleaner-offset-checkpoint"
        if not checkpoint.exists():
            return False
        return f"{NAME} 0 {self.active_base()}" in checkpoint.read_text().splitlines()

    def memory(self) -> dict[str, float]:
        """The peak memory of the broker's process and of its helper processes, in MiB."""
        broker, *helpers = map(process_usage.peak_mib, process_usage.family(self.broker.pid))
        return {"broker": broker, "helpers": sum(helpers)}


# Reading


def fetch_all(client: WireClient, start: int = 0) -> Iterator[tuple[Any, bytes]]:
    """Every batch from an offset to the end."""
    offset = start
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=NAME, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[topic])
        answer = client.call(request, 12).responses[0].partitions[0]
        assert answer.error_code == 0, answer.error_code
        data = bytes(answer.records or b"")
        if not data:
            return
        for at, header in iter_headers(data, allow_partial=True):
            yield header, data[at : at + header.size]
            offset = header.next_offset


def read_again_and_again(bootstrap: str, seed: int, count: int, keys: int, stop: Event, results: Any) -> None:
    """The reader's process: it checks that offsets rise, batches are whole, and one batch in twenty is unchanged."""
    updates = Updates(seed, count, keys)
    rounds = batches = checked = 0
    problems: list[str] = []
    with WireClient(bootstrap) as client:
        while not stop.is_set() and not problems:
            last = -1
            for header, data in fetch_all(client):
                batches += 1
                if header.base_offset <= last:
                    problems.append(f"batch {header.base_offset} after offset {last}")
                last = header.last_offset
                if batches % 20 == 0:
                    checked += header.count
                    problems += wrong_records(updates, data)
                if stop.is_set() or problems:
                    break
            rounds += 1
    results.put({"rounds": rounds, "batches": batches, "records_checked": checked, "problems": problems[:5]})


def wrong_records(updates: Updates, data: bytes) -> list[str]:
    """Descriptions of the records in a batch that differ from the update at their offset."""
    return [
        f"offset {record.offset} holds {record!r:.80}"
        for record in iter_records(data, max_bytes=1 << 28)
        if record != updates.record(record.offset)
    ]


def check_content(campaign: Campaign) -> list[str]:
    """Compare the records that are left with the model; return the differences."""
    updates, problems = campaign.updates, []
    expected = updates.last_of_keys()
    kept: dict[int, int] = {}
    last = count = 0
    with WireClient(campaign.broker.bootstrap) as client:
        for _, data in fetch_all(client):
            for record in iter_records(data, max_bytes=1 << 28):
                if record.offset < last or record != updates.record(record.offset):
                    problems.append(f"offset {record.offset} after {last}: {record!r:.80}")
                last = record.offset
                kept[updates.keys[record.offset]] = record.offset
                count += 1
    if kept != expected:
        wrong = [key for key, n in expected.items() if kept.get(key) != n]
        problems.append(f"{len(wrong)} keys do not have their last update, {wrong[:3]} among them")
    print(f"content: {count} records left of {len(updates)} updates of {len(expected)} keys", flush=True)
    return problems[:10]


def dump_complaints(folder: Path) -> list[str]:
    """Run DumpLogSegments on all files of a log; return its complaints, at most three for each run."""
    from harness.java_runner import JavaRunner

    complaint = re.compile(r"isvalid: false|not a valid|bytes are not|corrupt|exception|mismatch", re.I)
    java = JavaRunner()
    try:
        problems = []
        for pattern, flags in (
            ("*.log", ()),
            ("*.index", ("--index-sanity-check",)),
            ("*.index", ()),
            ("*.timeindex", ()),
        ):
            files = ",".join(sorted(str(path) for path in folder.glob(pattern)))
            result = java.tool("DumpLogSegments", "--files", files, *flags, timeout_s=600)
            lines = (result.out + result.err).splitlines()
            problems += [line for line in lines if complaint.search(line)][:3]
            if result.status:
                problems.append(f"DumpLogSegments ended with {result.status}")
        return problems
    finally:
        java.close()


# The parts


def percentile(ascending: list[float], fraction: float) -> float:
    """A percentile in milliseconds; 0 without values."""
    return round(1000 * ascending[min(int(len(ascending) * fraction), len(ascending) - 1)], 3) if ascending else 0.0


def write_clean_and_read(args: argparse.Namespace, home: Path, updates: Updates) -> dict[str, Any]:
    """Parts 1 and 2: write, clean and read at the same time, then check the content; return the results."""
    campaign = Campaign("kwire", home, updates, args.segment_bytes, args.batch_records)
    campaign.start()
    idle_memory = campaign.memory()
    stop = multiprocessing.Event()
    results: multiprocessing.Queue[dict[str, Any]] = multiprocessing.Queue()
    reader = multiprocessing.Process(
        target=read_again_and_again,
        args=(campaign.broker.bootstrap, args.seed, args.count, args.keys, stop, results),
        daemon=True,
    )
    try:
        campaign.write(args.count // 3)
        reader.start()
        idle = campaign.write_paced(args.seconds)
        campaign.set_ratio(0.01)
        busy = campaign.write_paced(args.seconds)
        memory = campaign.memory()
        begin = time.perf_counter()
        bulk = args.count - campaign.written
        campaign.write(bulk)
        took = time.perf_counter() - begin
        campaign.set_ratio(0.0)
        wait_until(campaign.is_clean, 600, "everything is clean")
        stop.set()
        reading = results.get(timeout=60)
        problems = reading["problems"] + check_content(campaign)
        campaign.broker.stop()
        problems += dump_complaints(campaign.folder) if not args.no_java else []
    finally:
        stop.set()
        campaign.broker.kill()
    log = campaign.broker.log_text()
    return {
        "problems": problems,
        "reader": {name: value for name, value in reading.items() if name != "problems"},
        "cleanings": log.count('"event": "log cleaned"'),
        "p50_ms": {"idle": percentile(idle, 0.5), "cleaning": percentile(busy, 0.5)},
        "p99_ms": {"idle": percentile(idle, 0.99), "cleaning": percentile(busy, 0.99)},
        "written_per_second_while_cleaning": round(bulk / took) if took else 0,
        "peak_mib": {"idle": idle_memory, "cleaning": memory},
    }


def time_cleaner(kind: str, args: argparse.Namespace, home: Path, updates: Updates) -> dict[str, Any]:
    """Write everything, then let the cleaner clean it in one run."""
    campaign = Campaign(kind, home, updates, args.throughput_segment_bytes, args.batch_records)
    try:
        campaign.start()
        campaign.write(args.count)
        before = campaign.memory()
        if not campaign.active_base():
            raise SystemExit("everything fits into one segment: raise --count or lower --throughput-segment-bytes")
        dirty = sum(path.stat().st_size for path in campaign.folder.glob("*.log"))
        begin = time.perf_counter()
        campaign.set_ratio(0.0)
        peak = before
        while not campaign.is_clean():
            time.sleep(0.02)
            now = campaign.memory()
            peak = {name: max(peak[name], now[name]) for name in now}
            assert time.perf_counter() - begin < 900, "the cleaner does not come to an end"
        seconds = time.perf_counter() - begin
        left = sum(path.stat().st_size for path in campaign.folder.glob("*.log"))
    finally:
        campaign.broker.kill()
    grown = sum(peak.values()) - sum(before.values())
    return {
        "seconds": round(seconds, 2),
        "records_per_second": round(args.count / seconds),
        "mb_per_second": round(dirty / seconds / 1e6, 1),
        "bytes": [dirty, left],
        "peak_mib": {name: round(value, 1) for name, value in peak.items()},
        "grown_mib": round(grown, 1),
    }


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if the content is wrong."""
    parser = campaign_parser("compaction", __doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="how many updates are written")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="how long each of the two latency measurements takes"
    )
    parser.add_argument("--segment-bytes", type=int, default=1 << 20)
    parser.add_argument("--throughput-segment-bytes", type=int, default=32 << 20)
    parser.add_argument("--batch-records", type=int, default=BULK_RECORDS, help="records in a batch of the bulk")
    parser.add_argument(
        "--compression",
        type=int,
        default=0,
        choices=range(5),
        help="compression type of all batches, by Kafka's number",
    )
    parser.add_argument("--no-java", action="store_true", help="do without Apache Kafka's cleaner and tool")
    parser.add_argument("--part", choices=("all", "content", "throughput"), default="all")
    args = parser.parse_args(arguments)
    if not args.no_java and (reason := why_no_java()):
        parser.error(f"{reason} (or --no-java)")
    updates = Updates(args.seed, args.count, args.keys, args.compression)
    result: dict[str, Any] = {"seed": args.seed, "count": args.count, "keys": args.keys, "load": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="kwire-compaction-") as folder:
        if args.part in ("all", "content"):
            result["content"] = write_clean_and_read(args, Path(folder) / "content", updates)
            print(json.dumps(result["content"], indent=1), flush=True)
        if args.part in ("all", "throughput"):
            for kind in ["kwire"] if args.no_java else ["kwire", "kafka"]:
                result[kind] = time_cleaner(kind, args, Path(folder) / kind, updates)
                print(kind, json.dumps(result[kind]), flush=True)
    problems = result.get("content", {}).get("problems", [])
    print(json.dumps(result))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
