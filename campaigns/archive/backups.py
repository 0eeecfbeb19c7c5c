"""Back a busy broker up to S3 and kill the backup with SIGKILL, again and again: what is restored is as of one moment.

    .venv/bin/python -m campaigns.archive.backups --count 200000 --kills 50 --seed 1

While three partitions are written (idempotently, tiny segments, some in transactions), a program counts each of them in
a compacted topic that is being cleaned: it consumes, writes how far it is, and commits that as its group's offsets, all
in one transaction. In each round ``kwire backup create`` is killed at a random moment. Every few rounds the newest
backup is restored, which is killed as well, and a broker starts on it:

- a raw fetch of each partition gives the bytes that the first broker gives, up to the backup's high watermark;
- the topics have their ids, and when the open transaction is ended, the counts in the compacted topic are the group's
  committed offsets: a backup of several moments would have an older one of the two;
- `DirectoryVerifier` finds nothing.

At the end the broker stops, is backed up once more, and the restored directory has its segments, byte by byte. The
server of S3 is moto's, on this machine. A line of JSON says what happened; a difference ends it with status 1.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from campaigns.archive.raw import EARLIEST, LATEST, fetched, offset, topic_ids
from campaigns.archive.topics import PARTITIONS, Writer, transaction
from campaigns.command_line import campaign_parser
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker
from harness.storage.s3 import S3Server
from harness.wire_client import WireClient
from kwire.archive.backup.restoring import is_data_directory
from kwire.log.verification.offline import DirectoryVerifier

TOPIC: Final = "orders"
COUNTS: Final = "counts"
GROUP: Final = "counter"
_TRANSACTION_MS: Final = 10_000
_ROUND_S: Final = 1.5
_KILLED_AT: Final = (0.2, 1.2)
"""When a backup is killed, by the time that one takes."""
_VERIFY_EVERY: Final = 5
_BATCH_BYTES: Final = 8192
_SEGMENTS: Final = "internal.segment.bytes=16384"
_SETTINGS: Final = {
    "log.retention.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.segment.bytes": "1048576",
}


class CampaignFailed(Exception):
    """What differs, or what ended with a traceback."""


class Counter:
    """A thread that counts `TOPIC` in `COUNTS`, exactly once."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stops.set()
        self._thread.join()

    def _run(self) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "log_level": 0}
        wanted = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, **wanted, "isolation.level": "read_committed"})
        consumer.subscribe([TOPIC])
        producer = counting_producer(self._bootstrap)
        while not self._stops.is_set():
            messages = [each for each in consumer.consume(500, 0.2) if each.error() is None]
            if not messages:
                continue
            reached = {each.partition() or 0: (each.offset() or 0) + 1 for each in messages}
            try:
                producer.begin_transaction()
                for partition, at in reached.items():
                    producer.produce(COUNTS, b"%d" % at, b"%d" % partition)
                offsets = [TopicPartition(TOPIC, partition, at) for partition, at in reached.items()]
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
                producer.commit_transaction()
            except KafkaException:
                break  # the broker is stopping
        consumer.close()


def counting_producer(bootstrap: str) -> Producer:
    """The counter's producer; what an earlier one has left open is aborted."""
    settings = {"transactional.id": GROUP, "transaction.timeout.ms": _TRANSACTION_MS, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(30)
    return producer


class Backups:
    """``kwire backup`` with S3's settings."""

    def __init__(self, home: Path, server: S3Server, data: Path) -> None:
        self.place = f"s3://{server.bucket}/kwire"
        self._environment = {**os.environ, **server.environment}
        self._errors = home / "backup.err"
        self._data = data
        self.kills = 0
        self.created = 0

    def create(self) -> dict[str, Any]:
        """A backup that is not killed."""
        done = self._run("create", "--data-dir", str(self._data), "--to", self.place, "-o", "json")
        self.created += 1
        return dict(json.loads(done))

    def create_killed(self, after_s: float) -> float | None:
        """A backup that is killed after some seconds, unless it has ended: then how many it took."""
        begun_s = time.monotonic()
        ended = self._start_and_kill(after_s, "create", "--data-dir", str(self._data), "--to", self.place)
        return time.monotonic() - begun_s if ended else None

    def restore(self, path: Path, killed_after_s: float) -> None:
        """Restore the newest backup; a first attempt is killed, perhaps when it has done everything."""
        words = ("restore", self.place, "--data-dir", str(path))
        if not self._start_and_kill(killed_after_s, *words) and not is_data_directory(str(path)):
            self._run(*words)

    def numbers(self) -> list[int]:
        """The backups that are there."""
        return [each["number"] for each in json.loads(self._run("list", self.place, "-o", "json"))]

    def _start_and_kill(self, after_s: float, *words: str) -> bool:
        """Whether it had ended with status 0 by then."""
        with self._errors.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "kwire", "backup", *words],
                cwd=ROOT,
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            status = process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.kills += 1
            return False
        if status != 0:
            raise CampaignFailed(self._errors.read_text()[-2000:])
        if words[0] == "create":
            self.created += 1
        return True

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kwire", "backup", *words],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CampaignFailed(f"{' '.join(words)}: {done.stderr[-2000:]}")
        return done.stdout


def run_campaign(home: Path, *, count: int, kills: int, seed: int, verify_every: int = _VERIFY_EVERY) -> dict[str, Any]:
    """One run; what happened. `CampaignFailed`."""
    chance = random.Random(seed)
    started_s = time.monotonic()
    broker = make_broker("kwire", home / "broker", _SETTINGS)
    broker.start()
    with S3Server(home / "s3") as server:
        backups = Backups(home, server, broker.data_dir)
        try:
            _make_topics(broker)
            writer = Writer(broker.bootstrap, TOPIC, count, count / (kills * _ROUND_S + 1), seed, _BATCH_BYTES)
            counter = Counter(broker.bootstrap)
            took_s = _timed(backups.create)
            compared = verified = 0
            while backups.kills < kills:
                # The first backup may have been a slow one: without its time being corrected, no other might be killed.
                took_s = backups.create_killed(chance.uniform(*_KILLED_AT) * took_s) or took_s
                transaction(broker.bootstrap, TOPIC, f"campaign-{backups.kills}", commits=chance.random() < 0.5)
                if backups.kills >= verified + verify_every and backups.numbers():
                    verified = backups.kills
                    compared += _verify(home, backups, broker, chance)
            among = backups.created
            backups.create()
            compared += _verify(home, backups, broker, chance)
            writer.finish()
            counter.stop()
            if writer.failures:
                raise CampaignFailed(f"the writer: {writer.failures[0]}")
            broker.stop()
            last = backups.create()
            again = backups.create()
            if again["copied_files"] > 1:  # the metadata store may be another file
                raise CampaignFailed(f"nothing has changed, and {again['copied_files']} files were copied")
            segments = _compare_files(home, backups, broker, chance)
        finally:
            broker.kill()
    return {
        "records": count,
        "kills": backups.kills,
        "backups": last["number"],
        "backups_among_kills": among,
        "restored_and_compared": compared,
        "segments": segments,
        "bytes": last["bytes"],
        "seconds": round(time.monotonic() - started_s),
    }


def _timed(work: Callable[[], object]) -> float:
    """How many seconds something takes on this machine, as busy as it is."""
    begun_s = time.monotonic()
    work()
    return time.monotonic() - begun_s


def _make_topics(broker: Broker) -> None:
    create = [sys.executable, "-m", "kwire", "topic", "create", "-b", broker.bootstrap]
    compacted = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "internal.segment.bytes=4096")
    for words in (
        (TOPIC, "--partitions", str(PARTITIONS), "--config", _SEGMENTS),
        (COUNTS, *(word for each in compacted for word in ("--config", each))),
    ):
        subprocess.run([*create, *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _verify(home: Path, backups: Backups, broker: Broker, chance: random.Random) -> int:
    """Restore the newest backup, start a broker on it and compare; 1. `CampaignFailed`."""
    path = home / "restored"
    backups.restore(path / "data", chance.uniform(0.2, 2))
    restored = make_broker("kwire", path / "broker", _SETTINGS, data_dir=path / "data")
    restored.start()
    try:
        with WireClient(broker.bootstrap) as one, WireClient(restored.bootstrap) as other:
            ids = topic_ids(other)
            if ids != {name: each for name, each in topic_ids(one).items() if name in ids}:
                raise CampaignFailed("topics have other ids or partitions")
            for partition in range(PARTITIONS):
                start, end = (offset(other, TOPIC, partition, each) for each in (EARLIEST, LATEST))
                if fetched(one, TOPIC, partition, start, end) != fetched(other, TOPIC, partition, start, end):
                    raise CampaignFailed(f"{TOPIC}-{partition}: a fetch gives other bytes before offset {end}")
        counted, committed = _counts(restored.bootstrap)
        if counted != committed:
            raise CampaignFailed(f"counted {counted}, committed {committed}")
        restored.stop()
        findings = DirectoryVerifier(str(path / "data"), deep=True).run()
        if findings:
            raise CampaignFailed(f"{findings[0].path}: {findings[0].problem}")
    finally:
        restored.kill()
        shutil.rmtree(path, ignore_errors=True)
    return 1


def _counts(bootstrap: str) -> tuple[dict[int, int], dict[int, int]]:
    """How far the counter is: in its topic, and as its group's offsets."""
    counting_producer(bootstrap)
    settings = {"group.id": GROUP, "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    found = consumer.committed([TopicPartition(TOPIC, each) for each in range(PARTITIONS)], 30)
    consumer.assign([TopicPartition(COUNTS, 0, 0)])
    counted: dict[int, int] = {}
    while True:
        message = consumer.poll(30)
        if message is None:
            raise CampaignFailed(f"{COUNTS}: no end within 30 s")
        if message.error():
            break
        counted[int(message.key() or b"")] = int(message.value() or b"")
    consumer.close()
    return counted, {each.partition: each.offset for each in found if each.offset >= 0}


def _compare_files(home: Path, backups: Backups, broker: Broker, chance: random.Random) -> int:
    """Restore the backup of a stopped broker: its segments are those of the broker; how many."""
    path = home / "restored"
    backups.restore(path, chance.uniform(0.2, 2))
    own = {str(each.relative_to(broker.data_dir)): each for each in broker.data_dir.glob("*-*/*.log")}
    found = {str(each.relative_to(path)) for each in path.glob("*-*/*.log")}
    if missing := {name for name, each in own.items() if each.stat().st_size and name not in found}:
        raise CampaignFailed(f"{min(missing)} is not in the backup")
    for name in sorted(found):
        if (path / name).read_bytes() != own[name].read_bytes():
            raise CampaignFailed(f"{name} has other bytes")
    shutil.rmtree(path)
    return len(found)


def main() -> int:
    """Run it."""
    parser = campaign_parser("archive.backups", __doc__)
    parser.add_argument("--count", type=int, default=200_000, help="records (default: 200000)")
    parser.add_argument("--kills", type=int, default=50, help="how often a backup is killed (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-backups-") as home:
        try:
            summary = run_campaign(Path(home), count=arguments.count, kills=arguments.kills, seed=arguments.seed)
        except CampaignFailed as error:
            print(error, file=sys.stderr)
            return 1
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
