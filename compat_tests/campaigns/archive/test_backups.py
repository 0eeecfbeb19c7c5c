"""Backups to S3: a short run of `campaigns/archive/backups.py`, a broker started from one, the guide, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from campaigns.archive import backups
from campaigns.archive.raw import EARLIEST, LATEST, fetched, offset, topic_ids
from campaigns.archive.topics import transaction
from compat_tests.documents import guides
from harness.paths import ROOT
from harness.processes.brokers import Broker, KwireBroker, make_broker, wait_until
from harness.storage.s3 import S3Server
from harness.wire_client import WireClient
from kwire.log.common import checkpoints

Run = Callable[..., "subprocess.CompletedProcess[str]"]


class FromBackup(KwireBroker):
    """A broker of ``kwire start --from``."""

    place = ""

    def _spawn(self, command: list[str], stdout: Path | None = None) -> subprocess.Popen[bytes]:
        return super()._spawn([*command, "--from", self.place], stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def kwire(server: S3Server) -> Run:
    def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        wanted = {**os.environ, **server.environment, **settings}
        environment = {name: value for name, value in wanted.items() if value}
        command = [sys.executable, "-m", "kwire", *words]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = make_broker("kwire", tmp_path / "first", {"replica.high.watermark.checkpoint.interval.ms": "100"})
    broker.start()
    yield broker
    broker.kill()


def test_a_backup_is_of_one_moment_whatever_is_killed(tmp_path: Path) -> None:
    summary = backups.run_campaign(tmp_path, count=2000, kills=2, seed=5, verify_every=100)
    assert summary["kills"] >= 2 and summary["restored_and_compared"] >= 1


def test_a_broker_started_from_a_bucket_serves_the_same_bytes(
    broker: Broker, server: S3Server, kwire: Run, tmp_path: Path
) -> None:
    create = ("topic", "create", "orders", "-b", broker.bootstrap, "--partitions", "3")
    assert kwire(*create, "--config", "internal.segment.bytes=4096", "--config", "retention.ms=-1").returncode == 0
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": compression})
        for number in range(200):
            producer.produce("orders", b"value %d" % number * 9, b"key %d" % number, headers=[("n", b"1")])
        assert producer.flush(60) == 0
    for number in range(4):
        transaction(broker.bootstrap, "orders", f"t-{number}", commits=number % 2 == 0)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", each, 50 + each) for each in range(3)], asynchronous=False)
    consumer.close()
    with WireClient(broker.bootstrap) as client:
        ids, served = topic_ids(client), _served(client)
    broker.stop()
    place = f"s3://{server.bucket}/started"
    done = kwire("backup", "create", "--data-dir", str(broker.data_dir), "--to", place)
    assert done.returncode == 0, done.stderr

    again = FromBackup(tmp_path / "again", broker.settings)
    again.place, again.environment = place, server.environment
    again.start()
    try:
        with WireClient(again.bootstrap) as client:
            assert topic_ids(client) == ids
            assert _served(client) == served
        settings = {"bootstrap.servers": again.bootstrap, "group.id": "readers", "auto.offset.reset": "error"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        first: dict[int, int] = {}
        while len(first) < 3:
            message = consumer.poll(60)
            assert message is not None and message.error() is None
            first.setdefault(message.partition() or 0, message.offset() or 0)
        assert first == {0: 50, 1: 51, 2: 52}
        consumer.close()
        assert "retention.ms" in kwire("config", "get", "topic/orders", "-b", again.bootstrap).stdout
        producer = Producer({"bootstrap.servers": again.bootstrap})
        producer.produce("orders", b"after", partition=0)
        assert producer.flush(60) == 0
        again.restart()  # the directory is in use: it is not restored again
        with WireClient(again.bootstrap) as client:
            assert offset(client, "orders", 0, LATEST) > served["orders", 0][1]
    finally:
        again.kill()


def _served(client: WireClient) -> dict[tuple[str, int], tuple[int, int, bytes]]:
    """First offset, high watermark and bytes of each partition."""
    found = {}
    for topic, (_, partitions) in topic_ids(client).items():
        for partition in range(partitions):
            start, end = (offset(client, topic, partition, each) for each in (EARLIEST, LATEST))
            found[topic, partition] = (start, end, fetched(client, topic, partition, start, end))
    return found


def test_what_a_store_refuses_is_a_line(broker: Broker, server: S3Server, kwire: Run, tmp_path: Path) -> None:
    broker.stop()
    create = ("backup", "create", "--data-dir", str(broker.data_dir), "--to")
    done = kwire(*create, "s3://nowhere/kwire")
    assert (done.returncode, done.stderr) == (1, "kwire: s3://nowhere/kwire: there is no such bucket\n")
    nobody = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1"}
    done = kwire(*create, f"s3://{server.bucket}/kwire", **nobody)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "access denied: the store's credentials (AWS_ACCESS_KEY_ID ...) are missing or not accepted" in done.stderr
    done = kwire(*create, f"s3://{server.bucket}/kwire", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "s3://backups/kwire" in done.stderr

    place = f"s3://{server.bucket}/damaged"
    assert kwire(*create, place).returncode == 0
    name = next(
        each["Key"] for each in server.client.list_objects_v2(Bucket=server.bucket, Prefix="damaged/store/")["Contents"]
    )
    server.client.put_object(Bucket=server.bucket, Key=name, Body=b"something else")
    done = kwire("start", "--from", place, "--data-dir", str(tmp_path / "new"), "--listen", "127.0.0.1:0")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert f"s3://{server.bucket}/{name}: damaged: its SHA-256 is" in done.stderr
    done = kwire("start", "--data-dir", str(tmp_path / "new"), "--listen", "127.0.0.1:0")
    assert done.returncode == 1 and "was not finished: run kwire backup restore again" in done.stderr


def test_the_guide_prints_what_it_shows(
    broker: Broker, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "guide"
    folder.mkdir()
    guides.programs(folder)
    blocks = [each for each in guides.blocks("BACKUP.md") if "pip install" not in each[0]]
    assert len(blocks) >= 4
    checkpoint = str(broker.data_dir / checkpoints.HIGH_WATERMARK_FILE)
    for commands, shown in blocks:
        guides.check(commands, shown, folder, broker.bootstrap, {"/var/lib/kwire": str(broker.data_dir)})
        if "kwire produce" in commands:
            wait_until(lambda: "orders 0 3" in Path(checkpoint).read_text(), 30, "the checkpoint of high watermarks")
