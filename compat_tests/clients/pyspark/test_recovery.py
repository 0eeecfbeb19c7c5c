"""A streaming job whose process, or whose broker, is killed continues from its checkpoints and is exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.clients.pyspark.frames import PARTITIONS, Frames, values
from harness.processes.brokers import Broker, wait_until
from harness.processes.kwire_cluster import KwireCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(1500)]

TRANSACTIONS = 32
EACH = 25
SLOWLY_S = 0.25  # pause between two transactions, so that the kills happen during the work


@contextmanager
def running_job(*arguments: str, folder: Path) -> Iterator[Callable[[], int]]:
    """Run the job as a process, killed with its JVM at the end; yields its progress, -1 before the first batch."""
    log = folder / "job.log"
    command = [sys.executable, "-m", "compat_tests.clients.pyspark.job", *arguments]
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    positions: list[int] = [-1]
    with open(log, "ab") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment, start_new_session=True
        )
    assert process.stdout is not None
    lines = process.stdout
    reader = threading.Thread(target=lambda: positions.extend(int(line) for line in lines), daemon=True)
    reader.start()

    def position() -> int:
        assert process.poll() is None, f"the job ended by itself:\n{log.read_text(errors='replace')[-3000:]}"
        return positions[-1]

    try:
        yield position
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(10)
        lines.close()


def produce_slowly(bootstrap: str, topic: str, committed: list[str], stop: threading.Event) -> None:
    """Run transactions at an even pace and abort every fourth; the values of acknowledged commits go to `committed`.
    librdkafka retries a transaction that a dead broker interrupts."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-tx", "linger.ms": 5})
    producer.init_transactions(60)
    for transaction in range(TRANSACTIONS):
        producer.begin_transaction()
        texts = [f"t{transaction}-{number}" for number in range(EACH)]
        for number, text in enumerate(texts):
            producer.produce(topic, value=text.encode(), partition=number % PARTITIONS)
        producer.flush(60)
        if transaction % 4 == 3:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += texts
        if stop.wait(SLOWLY_S):
            return


def make_topics(bootstrap: str, replicas: int) -> None:
    """Create the topics that the job reads and writes."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [NewTopic("source", PARTITIONS, replicas), NewTopic("target", 1, replicas)]
    for future in admin.create_topics(topics).values():
        future.result(30)


@pytest.mark.long_on_kafka
@pytest.mark.parametrize(
    "format",
    [
        pytest.param("kafka", id="connector"),
        pytest.param("kwire", id="without-jars", marks=pytest.mark.long),  # exactly_once/test_hard_cases.py kills more
    ],
)
def test_kills_of_broker_and_of_spark_lose_and_double_nothing(
    broker_factory: Callable[..., Broker], broker_kind: str, spark: Any, tmp_path: Path, format: str
) -> None:
    """Spark's own topic sink writes a batch again that is made again; kwire's does not."""
    own = broker_factory()
    make_topics(own.bootstrap, 1)
    committed: list[str] = []
    stop = threading.Event()
    writer = threading.Thread(target=produce_slowly, args=(own.bootstrap, "source", committed, stop), daemon=True)
    arguments = (own.bootstrap, "source", "target", str(tmp_path / "job"), format)
    (tmp_path / "job").mkdir()
    try:
        with running_job(*arguments, folder=tmp_path) as position:
            wait_until(lambda: position() >= 0, 200, "the job's start")
            writer.start()
            wait_until(lambda: position() >= 100, 200, "the first records")
            own.kill()
            own.start()
            seen = position()
            wait_until(lambda: position() > seen, 200, "records after the broker's death")
        with running_job(*arguments, folder=tmp_path) as position:
            writer.join(120)
            assert not writer.is_alive(), "the producer hangs"
            frames = Frames(spark, own.bootstrap, tmp_path / "job")
            end = TRANSACTIONS * EACH + TRANSACTIONS * PARTITIONS  # every transaction has a marker in each partition
            wait_until(lambda: position() >= end, 200, f"position {end}")
    finally:
        stop.set()
    files = values(spark.read.parquet(str(tmp_path / "job" / "parquet")))
    assert files == sorted(committed), "the file sink is exactly-once"
    written = values(frames.read("target", **{"kafka.isolation.level": "read_committed"}))
    if format == "kwire":
        assert written == sorted(committed), "the topic sink is exactly-once"
    else:
        assert set(written) == set(committed), "the topic sink is at-least-once"


@pytest.mark.long
def test_a_job_goes_on_when_the_leading_broker_of_a_cluster_dies(spark: Any, tmp_path: Path) -> None:
    """A killed broker restarts while the job runs; then the broker that leads most partitions is killed."""
    cluster = KwireCluster(tmp_path / "cluster")
    committed: list[str] = []
    stop = threading.Event()
    (tmp_path / "job").mkdir()
    try:
        cluster.start()
        make_topics(cluster.bootstrap, 3)
        cluster.wait_until_well()
        arguments = (cluster.bootstrap, "source", "target", str(tmp_path / "job"), "kafka")
        writer = threading.Thread(
            target=produce_slowly, args=(cluster.bootstrap, "source", committed, stop), daemon=True
        )
        with running_job(*arguments, folder=tmp_path) as position:
            wait_until(lambda: position() >= 0, 200, "the job's start")
            writer.start()
            for wanted in (100, 300):
                wait_until(lambda wanted=wanted: position() >= wanted, 200, f"{wanted} records")  # type: ignore[misc]
                cluster.kill_busiest()
                seen = position()
                wait_until(lambda seen=seen: position() > seen, 200, "records after a broker's death")  # type: ignore[misc]
                cluster.start()
            writer.join(120)
            assert not writer.is_alive(), "the producer hangs"
            end = TRANSACTIONS * EACH + TRANSACTIONS * PARTITIONS
            wait_until(lambda: position() >= end, 200, f"position {end}")
        target = Frames(spark, cluster.bootstrap, tmp_path / "job").read("target")
        assert set(values(target)) == set(committed), "the topic sink is at-least-once"
    finally:
        stop.set()
        cluster.kill()
    files = values(spark.read.parquet(str(tmp_path / "job" / "parquet")))
    assert files == sorted(committed), "the file sink is exactly-once"
