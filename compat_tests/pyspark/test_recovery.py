"""A streaming job goes on from its checkpoints when it, or the broker, is killed: nothing lost, nothing twice."""

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

from compat_tests.brokers import Broker, wait_until
from compat_tests.pyspark.conftest import PARTITIONS, Frames, values

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

TRANSACTIONS = 32
EACH = 25
SLOWLY_S = 0.25  # between two transactions, so that the kills fall into the work


@contextmanager
def running_job(*arguments: str, folder: Path) -> Iterator[Callable[[], int]]:
    """The job as a process of its own, killed with its JVM at the end: yields how far it is, -1 before it works."""
    log = folder / "job.log"
    command = [sys.executable, "-m", "compat_tests.pyspark.job", *arguments]
    root = str(Path(__file__).parents[2])
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
    """Transactions at an even pace, every fourth aborted; `committed` gets what was acknowledged. A transaction that a
    dead broker interrupts is tried again by librdkafka."""
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


def test_kills_of_broker_and_of_spark_lose_and_double_nothing(
    broker_factory: Callable[..., Broker], broker_kind: str, spark: Any, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    own = broker_factory()
    admin = AdminClient({"bootstrap.servers": own.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic("source", PARTITIONS, 1), NewTopic("target", 1, 1)]).values():
        future.result(30)
    committed: list[str] = []
    stop = threading.Event()
    writer = threading.Thread(target=produce_slowly, args=(own.bootstrap, "source", committed, stop), daemon=True)
    arguments = (own.bootstrap, "source", "target", str(tmp_path / "job"))
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
    assert set(values(frames.read("target"))) == set(committed), "the topic sink is at-least-once"
