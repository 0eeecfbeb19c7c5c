"""``kwire sql --continuous``: exactly once into a topic, though its processes are killed; a table; one line if not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.clients.pyspark.frames import forget_last_commit
from compat_tests.names import Names
from harness.paths import ROOT
from harness.processes.brokers import Broker, wait_until

pytestmark = [pytest.mark.java, pytest.mark.long_on_kafka, pytest.mark.timeout(900)]

RECORDS = 600


def environment(broker: Broker, folder: Path) -> dict[str, str]:
    """Of the command: the broker, and a place for the state."""
    path = os.pathsep.join(filter(None, sys.path))
    return {
        **os.environ,
        "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "XDG_STATE_HOME": str(folder),
        "PYTHONPATH": path,
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kwire", "sql", "--continuous", *arguments]


def finished(broker: Broker, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with ``--until-end``."""
    return subprocess.run(
        command("--until-end", *arguments),
        env=environment(broker, folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@contextmanager
def running(broker: Broker, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, killed with its JVM and Python processes at the end."""
    process = subprocess.Popen(
        command(*arguments),
        env=environment(broker, folder),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def produce(broker: Broker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in numbers:
        producer.produce(topic, b'{"n": %d}' % number, b"k%d" % (number % 5), partition=number % 2)
    assert producer.flush(60) == 0


def committed(broker: Broker, topic: str) -> Counter[bytes]:
    """The values that a consumer with read_committed gets."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "sql", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Counter[bytes] = Counter()
    while (message := consumer.poll(30)) is not None and not message.error():
        value = message.value()
        assert isinstance(value, bytes)
        found[value] += 1
    consumer.close()
    return found


def test_each_record_comes_once_though_the_query_is_killed(
    broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    source, target = make_topic(2, name=new_name("my-orders")), make_topic(1, name=new_name("numbers"))
    query = f"select key, get_json_object(value, '$.n') as value from `{source}` where partition >= 0"
    produce(broker, source, range(RECORDS // 3))
    with running(broker, tmp_path, "--to-topic", target, query) as process:
        wait_until(lambda: process.poll() is not None or committed(broker, target), 300, "the first batch", 0.5)
        assert process.poll() is None
        produce(broker, source, range(RECORDS // 3, RECORDS))
    checkpoint = tmp_path / "kwire" / "sql" / target / "checkpoint"
    if any((checkpoint / "commits").glob("[0-9]*")):  # as if it had been killed a moment earlier
        forget_last_commit(checkpoint)
    ended = finished(broker, tmp_path, "--to-topic", target, query)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"kwire sql ready name={target} checkpoint={tmp_path}/kwire/sql/{target}\n"
    assert committed(broker, target) == Counter(b"%d" % number for number in range(RECORDS))
    other = finished(broker, tmp_path, "--to-topic", target, query.replace(">=", ">"))
    assert other.returncode == 1
    assert other.stderr.startswith(f"kwire: --name {target} has another query") and other.stderr.count("\n") == 1


def test_a_table_has_the_columns_of_the_query(
    broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    source = make_topic(2, name=new_name("orders"))
    produce(broker, source, range(RECORDS))
    table = tmp_path / "table"
    columns = "key, value, headers, partition, offset, timestamp, value_bytes, key_bytes"
    arguments = ("--to", str(table), f"select {columns} from `{source}`")
    ended = finished(broker, tmp_path, *arguments)
    assert ended.returncode == 0, ended.stderr
    rows = pq.read_table(table, partitioning=None)
    assert rows.column_names == columns.split(", ")
    values = rows.select(["value", "value_bytes"]).to_pylist()
    assert all(each["value"].encode() == each["value_bytes"] for each in values)
    assert Counter(each["value_bytes"] for each in values) == Counter(b'{"n": %d}' % n for n in range(RECORDS))


@pytest.mark.long
def test_the_guide_prints_what_it_shows(
    broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "SQL.md").read_text(encoding="utf-8")
    found = re.search(r"```sh\n([^`]*--continuous.*?)```\n\n```text\n(.*?)```", guide, re.S)
    assert found is not None
    source, target = make_topic(1, name=new_name("source").replace("-", "_")), new_name("target")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for region in ("eu", "us", "eu", "asia", "eu"):
        producer.produce(source, f'{{"region": "{region}", "amount": 10}}', "web")
    assert producer.flush(60) == 0
    commands, shown = (re.sub(r"\borders\b", source, each.replace("eu-orders", target)) for each in found.groups())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kwire").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kwire "$@"\n')
    (tmp_path / "bin" / "kwire").chmod(0o755)
    given = environment(broker, tmp_path)
    given["PATH"] = f"{tmp_path}/bin:{given['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", commands],
        env=given, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown.replace("/home/you/.local/state", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("select value from {topic}",), 2, "--continuous needs a target"),
        (("--to-topic", "x"), 2, "--continuous needs a query"),
        (("--to-topic", "x", "--data-dir", "/tmp", "select 1"), 2, "--data-dir is for queries that end"),
        (("--to-topic", "x", "--name", "a/b", "select 1"), 2, "--name a/b"),
        (
            ("--to-topic", "x", "select 1"),
            1,
            "no topic",
        ),  # names none, or reads none of those that a text like its own may name
    ],
)
def test_what_cannot_run_is_one_line(
    broker: Broker, topic: str, tmp_path: Path, arguments: tuple[str, ...], status: int, reason: str
) -> None:
    ended = finished(broker, tmp_path, *(each.replace("{topic}", topic) for each in arguments))
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (status, "", 1), ended.stderr
    assert reason in ended.stderr


def test_a_wrong_query_is_one_line(
    broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    source = make_topic(1, name=new_name("orders"))
    ended = finished(broker, tmp_path, "--to-topic", "x", f"select nothing from `{source}`")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), ended.stderr
    assert "`nothing` cannot be resolved" in ended.stderr


def test_a_query_that_names_no_topic_is_one_line(broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    """On a broker of its own: any word of a query may be the name of a topic that others have made."""
    broker = broker_factory()
    ended = finished(broker, tmp_path, "--to-topic", "x", "select 1")
    line = f"kwire: the query names no topic of {broker.bootstrap}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", line)
