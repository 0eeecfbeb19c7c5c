"""``kwire archive``: what is in a table is what a consumer with read_committed gets, from either broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.comparisons.cli.conftest import Kwire
from compat_tests.names import Names
from harness.processes.brokers import Broker, wait_until

FORMATS = ("parquet", "delta", "iceberg")
_READERS = {
    "parquet": "duckdb.sql(f\"from '{path}/*.parquet'\")",
    "delta": "duckdb.from_arrow(__import__('deltalake').DeltaTable(path).to_pyarrow_dataset().to_table())",
    "iceberg": "duckdb.from_arrow(__import__('pyiceberg.catalog.sql').catalog.sql.SqlCatalog('default',"
    " uri='sqlite:///' + path + '/catalog.db').load_table(('kwire', topic)).scan().to_arrow())",
}
_PROGRAM = """import sys, os, json, duckdb
path, topic = sys.argv[1:]
rows = {reader}.project('partition, "offset", epoch_ms(timestamp), timestamp_type, key, value, headers').fetchall()
plain = lambda it: it.decode('latin-1') if isinstance(it, bytes) else it
rows = [[*map(plain, row[:6]), [[each['key'], plain(each['value'])] for each in row[6] or ()]] for row in sorted(rows)]
print(json.dumps(rows), flush=True)
os._exit(0)  # DuckDB's and Delta's threads do not end well together
"""


def _table(kind: str, path: Path, topic: str) -> list[list[Any]]:
    """The rows of a table, read by DuckDB in a process of its own."""
    import json

    program = _PROGRAM.replace("{reader}", _READERS[kind])
    ended = subprocess.run([sys.executable, "-c", program, path, topic], capture_output=True, text=True, check=True)
    found: list[list[Any]] = json.loads(ended.stdout)
    return found


def _consumed(broker: Broker, topic: str, partitions: int) -> list[list[Any]]:
    """The same by librdkafka's consumer."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    rows: list[list[Any]] = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended.add(message.partition() or 0)
            continue
        own: Any = message.headers() or []
        headers = [[name, _text(value)] for name, value in own]
        kind, time_ms = message.timestamp()
        what = [time_ms, ("", "CreateTime", "LogAppendTime")[kind], _text(message.key()), _text(message.value())]
        rows.append([message.partition(), message.offset(), *what, headers])
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def _without_offset(row: list[Any]) -> list[Any]:
    return [*row[:1], *row[2:]]


def _text(value: bytes | str | None) -> str | None:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _produced(broker: Broker, topic: str, name: str) -> None:
    """Records of all kinds in two partitions, and transactions that were committed, aborted, and left open."""
    plain = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for number in range(300):
        headers: list[Any] | None = [("a", b"1"), ("a", None), ("é", b"\xff")] if number % 3 == 0 else None
        key, value = (None, b"%d" % number) if number % 5 else (b"k%d" % number, None if number % 2 else b"")
        plain.produce(topic, value, key, partition=number % 2, timestamp=1_700_000_000_000 + number, headers=headers)
    assert plain.flush(30) == 0
    settings = {"transactional.id": name, "transaction.timeout.ms": 600_000}  # the one left open outlasts the test
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    producer.init_transactions(30)
    endings = [producer.commit_transaction, producer.abort_transaction] * 2
    for ends in (*endings[:3], producer.flush):  # the last one stays open
        producer.begin_transaction()
        for number in range(20):
            producer.produce(topic, b"in a transaction", b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0
        ends()
    del producer


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_has_what_a_consumer_gets(
    kind: str, kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    topic, table = make_topic(2), tmp_path / ("a table?" if kind == "parquet" else "a table")
    _produced(broker, topic, new_name("id"))
    command = ("archive", topic, "--to", kind, "--path", str(table), "--until-end")
    done = kwire(*command, "--commit-records", "50", "-o", "json").json()
    rows = _table(kind, table, topic)
    assert rows == _consumed(broker, topic, 2)
    assert done == {"topic": topic, "to": kind, "path": str(table), "records": 340, "commits": 7}
    assert kwire(*command, "-o", "json").json()["records"] == 0
    back = new_name("back")
    restored = kwire("restore", str(table), "--topic", back, "-o", "json").json()
    assert restored == {"topic": back, "partitions": 2, "records": 340, "resumed": False}
    assert [_without_offset(each) for each in _consumed(broker, back, 2)] == [_without_offset(each) for each in rows]
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, b"after the open transaction", partition=0)
    assert plain.flush(30) == 0
    assert kwire(*command, "-o", "json").json()["records"] == 0
    other = make_topic(1)
    refused = kwire("archive", other, *command[2:])
    if kind != "iceberg":  # there each topic has its own name in the catalog
        words = f"has records of topic {topic}, not of {other}"
        assert refused.status == 1 and words in refused.err and refused.err.count("\n") == 1


def _wait_for_files(folder: Path, count: int) -> None:
    wait_until(lambda: len(list(folder.glob("*.parquet"))) == count, 60, f"{count} files")


def test_it_follows_until_a_signal(
    broker: Broker, make_topic: Callable[..., str], kwire: Kwire, tmp_path: Path
) -> None:
    topic = make_topic(1)
    words = ["archive", topic, "--to", "parquet", "--path", str(tmp_path), "--interval", "0.05", "-b", broker.bootstrap]
    process = subprocess.Popen([sys.executable, "-m", "kwire", *words], stdout=subprocess.PIPE, text=True)
    try:
        for number in range(3):
            kwire("produce", topic, stdin=f"{number}\n")
            _wait_for_files(tmp_path, number + 1)
        process.terminate()
        assert process.communicate(timeout=60)[0] == f"3 records of {topic} archived, commits: 3\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_a_topic_made_again_and_one_that_is_not_there_are_refused(
    kwire: Kwire, new_name: Names, tmp_path: Path
) -> None:
    topic = new_name("topic")
    command = ("archive", topic, "--to", "parquet", "--path", str(tmp_path / "t"), "--until-end")
    missing = kwire(*command)
    assert (missing.status == 1 and "there is no such topic" in missing.err) or "UNKNOWN_TOPIC" in missing.err
    for again in (False, True):
        assert kwire("topic", "create", topic).status == 0
        kwire.until(topic, "topic", "list")
        assert kwire("produce", topic, stdin="a\n").status == 0
        done = kwire(*command)
        if again:
            assert done.status == 1 and "was deleted and made again since" in done.err
        else:
            assert done.status == 0
            assert kwire("topic", "delete", topic).status == 0
            kwire.until_gone(topic)


def test_a_compacted_topic_keeps_its_gaps(broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    broker = broker_factory({"log.cleaner.backoff.ms": "50"})
    kwire = Kwire(broker.bootstrap, tmp_path)
    settings = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    options = [word for item in settings.items() for word in ("--config", "=".join(item))]
    assert kwire("topic", "create", "compacted", *options).status == 0
    kwire.until("compacted", "topic", "list")
    for part in range(6):
        lines = "".join(f"k{number % 7}:{part}-{number} {'x' * 5000}\n" for number in range(100))
        assert kwire("produce", "compacted", "-k", ":", stdin=lines).status == 0
    read: list[list[list[Any]]] = []

    def is_compacted() -> bool:
        read.append(_consumed(broker, "compacted", 1))
        return len(read[-1]) < 500

    wait_until(is_compacted, 60, "a compaction", 0.2)
    for kind, source in (("parquet", ()), ("delta", ("--data-dir", str(broker.data_dir)))):
        words = ("archive", "compacted", "--to", kind, "--path", str(tmp_path / kind), "--until-end", *source)
        if source:
            broker.stop()  # its checkpoints say then all that it knows
            words = (*words, "-o", "json")
        assert kwire(*words, bootstrap=None if not source else broker.bootstrap).status == 0
        rows = _table(kind, tmp_path / kind, "compacted")
        assert len({row[1] for row in rows}) == len(rows) <= len(read[-1])
        assert {row[4]: row[5] for row in rows} == {row[4]: row[5] for row in read[-1]}  # the newest of each key
