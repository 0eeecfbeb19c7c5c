"""``kwire archive --engine spark``: the same table as without Spark, from both brokers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from campaigns.archive.topics import PARTITIONS, consumed, digest, rows_of_table, transaction
from compat_tests.names import Names
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker
from kwire.archive.archiving import Settings
from kwire.archive.sources import BrokerSource
from kwire.archive.spark import SparkArchiver
from kwire.archive.targets.delta import DeltaTarget
from kwire.archive.targets.parquet import ParquetTarget
from kwire.arrow.reading import Brokers

pytestmark = [pytest.mark.java, pytest.mark.long_on_kafka]
_TARGETS: dict[str, Any] = {"parquet": ParquetTarget, "delta": DeltaTarget}


class Stopped(BaseException):
    """The driver was killed here."""


def _produced(broker: Broker, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        headers: Any = [("a", b"1"), ("a", None)] if number % 3 == 0 else None
        key, value = (None, b"%d" % number) if number % 5 else (b"k%d" % number, None)
        producer.produce(topic, value, key, partition=number % PARTITIONS, headers=headers)
    assert producer.flush(60) == 0


def _round(spark: Any, kind: str, path: Path, broker: Broker, topic: str) -> SparkArchiver:
    make_source = partial(BrokerSource, Brokers(broker.bootstrap, {}, 60), topic)
    identity = make_source().identity()
    with _TARGETS[kind].opened(str(path), identity) as target:
        archiver = SparkArchiver(
            spark, str(path), make_source, target, identity, Settings(rows_max=40), threading.Event()
        )
        archiver.round()
    return archiver


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_job_writes_what_a_consumer_gets(
    kind: str,
    spark: Any,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Names,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, table = make_topic(PARTITIONS), tmp_path / "table"
    _produced(broker, topic, 0, 300)
    transaction(broker.bootstrap, topic, new_name("aborted"), commits=False)
    transaction(broker.bootstrap, topic, new_name("committed"), commits=True)
    with monkeypatch.context() as patched:
        patched.setattr(_TARGETS[kind], "adopt", _stop)
        with pytest.raises(Stopped):
            _round(spark, kind, table, broker, topic)
    assert list(table.glob("*.unfinished"))
    first = _round(spark, kind, table, broker, topic)
    assert (first.records, first.commits) == (360, 1)
    assert not list(table.glob("*.unfinished"))
    assert _round(spark, kind, table, broker, topic).records == 0
    _produced(broker, topic, 300, 50)
    assert _round(spark, kind, table, broker, topic).records == 50
    rows = consumed(broker.bootstrap, topic)
    assert digest(rows_of_table(kind, table, topic), offsets=True) == digest(rows, offsets=True)


def _stop(*_: object) -> None:
    raise Stopped


def test_the_command_runs_a_job(tmp_path: Path) -> None:
    broker, table = make_broker("kwire", tmp_path / "broker"), tmp_path / "table"
    broker.start()
    try:
        _check_command(broker, "orders", table)
    finally:
        broker.kill()


def _check_command(broker: Broker, topic: str, table: Path) -> None:
    create = [sys.executable, "-m", "kwire", "topic", "create", topic, "--partitions", str(PARTITIONS)]
    subprocess.run([*create, "-b", broker.bootstrap], cwd=ROOT, check=True, capture_output=True)
    _produced(broker, topic, 0, 100)
    words = ["archive", topic, "--to", "parquet", "--path", str(table), "-b", broker.bootstrap, "--until-end"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    for engine in ("spark", "kwire"):  # the second finds nothing new
        done = subprocess.run(
            [sys.executable, "-m", "kwire", *words, "--engine", engine],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        counts = (100, 1) if engine == "spark" else (0, 0)
        assert done.stdout == f"{counts[0]} records of {topic} archived, commits: {counts[1]}\n", done.stderr
    assert digest(rows_of_table("parquet", table, topic), offsets=True) == digest(
        consumed(broker.bootstrap, topic), offsets=True
    )
