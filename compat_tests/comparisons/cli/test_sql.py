"""``kwire sql``: what it reads is what a consumer with read_committed gets, from brokers and from data directories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.comparisons.cli.conftest import Kwire, Output, words
from compat_tests.names import Names
from harness.processes.brokers import Broker, wait_until

START_MS = 1_763_000_000_000
MANY = 'select partition, "offset", epoch_ms(timestamp), value_bytes, key_bytes from "{topic}" order by 1, 2'


def produce(broker: Broker, topic: str, records: list[dict[str, Any]], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings})
    for each in records:
        producer.produce(topic, **each)
    assert producer.flush(60) == 0


def consumed(broker: Broker, topic: str, partitions: int = 1) -> list[tuple[Any, ...]]:
    """Partition, offset, time, value and key of each record, by librdkafka."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "sql", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    rows, ended = [], 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            ended += 1
        else:
            place = (message.partition() or 0, message.offset() or 0, message.timestamp()[1])
            rows.append((*place, message.value(), message.key()))
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def rows(kwire: Kwire, *arguments: str) -> list[tuple[Any, ...]]:
    """What a query answers, with hexadecimal bytes as bytes."""
    return [tuple(row.values()) for row in kwire("sql", "-o", "json", *arguments).json()]


def both(kwire: Kwire, broker: Broker, query: str) -> list[tuple[Any, ...]]:
    """The same answer from the broker and from its data directory, once that has all."""
    found = rows(kwire, query)
    wait_until(lambda: rows(kwire, "--data-dir", str(broker.data_dir), query) == found, 60, "the same from the files")
    return found


def hexadecimal(query: str) -> str:
    """Bytes as JSON can have them."""
    return query.replace("value_bytes", "hex(value_bytes)").replace("key_bytes", "hex(key_bytes)")


def as_hexadecimal(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(each.hex().upper() if isinstance(each, bytes) else each for each in row) for row in found]


def test_the_contract(kwire: Kwire, broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    values = [{"region": region, "n": {"deep": [1, None]}} for region in ("eu", "us", "eu")]
    produce(broker, topic, [{"value": json.dumps(each), "partition": i % 2} for i, each in enumerate(values)])
    query = f"select value->>'region' as region, count(*) as n from \"{topic}\" group by 1 order by 1"
    expected = [{"region": "eu", "n": 2}, {"region": "us", "n": 1}]
    assert kwire("sql", "--bootstrap-server", broker.bootstrap, "-o", "json", query).json() == expected
    assert [json.loads(each) for each in kwire("sql", "-o", "jsonl", query).out.splitlines()] == expected
    assert kwire("sql", "-o", "csv", query).out == "region,n\neu,2\nus,1\n"
    assert kwire("sql", "-o", "table", query).out == "region  n\neu      2\nus      1\n(2 rows)\n"
    assert kwire("sql", "-o", "json", f'select value from "{topic}" where partition = 1').json() == [
        {"value": values[1]}
    ]
    assert kwire("sql", "-o", "json", f'select 1 from "{topic}" where false').json() == []
    assert both(kwire, broker, query) == [("eu", 2), ("us", 1)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select * from never_made", "there is no topic never_made"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select nothing from (select 1)", "nothing"),
        ("insert into topics.x values (1)", "x"),
        ("select 1/'a'", "Could not convert|Conversion"),
    ],
)
def test_a_wrong_query_is_one_line(kwire: Kwire, query: str, reason: str) -> None:
    import re

    output = kwire("sql", query)
    assert output.status == 1 and output.out == ""
    assert output.err.startswith("kwire: ") and output.err.count("\n") == 1 and re.search(reason, output.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-o", "yaml", "select 1"),
        ("--value-type", "xml", "select 1"),
        ("--as-of", "{", "select 1"),
        ("--as-of", "@/no/such/file", "select 1"),
        ("--to", "x.csv", "select 1"),
        ("--to", "x.parquet", "--to-topic", "y", "select 1"),
        ("-o", "json", "--to", "x.parquet", "select 1"),
        ("--rows", "-1", "select 1"),
        ("",),
        ("select 1", "select 2"),
    ],
)
def test_wrong_usage_is_status_2(kwire: Kwire, arguments: tuple[str, ...]) -> None:
    output = kwire("sql", *arguments)
    assert output.status == 2 and output.err and "Traceback" not in output.err


def test_records_of_all_kinds(kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names) -> None:
    topic = make_topic(2)
    records: list[dict[str, Any]] = [
        {
            "value": (None, b"", b"\x00\xff", json.dumps({"n": i}).encode(), b"x" * 200_000)[i % 5],
            "key": (None, b"k%d" % i, b"")[i % 3],
            "partition": i % 2,
            "timestamp": START_MS + i,
            "headers": [("a", b"1"), ("a", None), ("\u00e9", b"\xff")] if i % 7 == 0 else None,
        }
        for i in range(100)
    ]
    produce(broker, topic, records, **{"compression.type": "zstd", "message.max.bytes": 2_000_000})
    transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": new_name("id")})
    transactional.init_transactions(60)
    for ends in (transactional.commit_transaction, transactional.abort_transaction, transactional.commit_transaction):
        transactional.begin_transaction()
        for i in range(10):
            transactional.produce(topic, b"in a transaction", partition=i % 2, timestamp=START_MS)
        assert transactional.flush(60) == 0
        ends()
    expected = as_hexadecimal(consumed(broker, topic, 2))
    assert len(expected) == 120
    assert both(kwire, broker, hexadecimal(MANY.format(topic=topic))) == expected
    assert both(kwire, broker, f'select count(*) from "{topic}" where value_bytes is null') == [(20,)]
    assert both(kwire, broker, f'select headers[3].key, hex(headers[3].value) from "{topic}" limit 1') == [("é", "FF")]
    late = kwire("sql", "--value-type", "json", "-o", "csv", f'select count(value), count(value_bytes) from "{topic}"')
    assert late.out.endswith("\n20,100\n")
    assert f"kwire: {topic}: 80 values not JSON, read as NULL" in late.err


def test_names_are_quoted_as_in_sql(kwire: Kwire, broker: Broker, make_topic: Callable[..., str]) -> None:
    long = f"{'x' * 200}-{broker.kind}"
    topics = [make_topic(1, name=name) for name in ("my-topic", "a.b.c", "select", "1", "_", "UPPER_lower", long)]
    for number, topic in enumerate(topics, 1):
        produce(broker, topic, [{"value": b"1"}] * number)
    counts = ", ".join(f'(select count(*) from "{topic}")' for topic in topics)
    assert both(kwire, broker, f"select {counts}") == [(1, 2, 3, 4, 5, 6, 7)]


def test_only_the_segments_that_may_match_are_read(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1, {"segment.bytes": "1048576"})
    for part in range(10):  # each is most of a segment
        produce(broker, topic, [{"value": b"x" * 60_000, "timestamp": START_MS + part * 60_000 + i} for i in range(15)])
    files = ("--data-dir", str(broker.data_dir))
    count = f'select count(*) as n from "{topic}"'
    wait_until(lambda: rows(kwire, *files, count) == [(150,)], 60, "the checkpoint of the high watermark")
    bases = sorted(int(each.stem) for each in (broker.data_dir / f"{topic}-0").glob("*.log"))
    assert len(bases) >= 8

    def read(where: str, *options: str) -> tuple[int, int, int]:
        """Rows, segments and offsets that were read."""
        output = kwire("sql", *files, *options, "--stats", "-o", "csv", f"{count} where {where}")
        found = output.err.partition(": read ")[2].split()
        return int(output.out.split()[1]), int(found[0]), int(found[4])

    every = read("true")
    assert every == (150, len(bases), 150)
    since = f"timestamp >= make_timestamptz({START_MS + 8 * 60_000}000)"
    must = sum(following > 8 * 15 for following in [*bases[1:], 150])
    assert read(since)[:2] == (30, must)
    assert read(f"{since} and timestamp < make_timestamptz({START_MS + 8 * 60_000 + 5}000)")[:2] == (5, must)
    middle = (
        f"timestamp between make_timestamptz({START_MS + 4 * 60_000}000) "
        f"and make_timestamptz({START_MS + 4 * 60_000 + 14}000)"
    )
    found, segments, _ = read(middle, "--in-time-order")
    assert found == 15 and segments <= 3
    assert read('"offset" between 70 and 72') == (3, 1, 3)
    assert read("partition = 5") == (0, 0, 0)
    broker_read = kwire("sql", "--stats", "-o", "csv", f"{count} where {since}")
    assert (broker_read.out, "read 30 of 150 offsets, 30 records" in broker_read.err) == ("n\n30\n", True)


def test_stated_offsets_give_the_same_again(kwire: Kwire, broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    program = [sys.executable, "-m", "kwire", "produce", topic, "-b", broker.bootstrap, "--rate", "2000"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"".join(b'{"n": %d}\n' % number for number in range(6000)))
        writer.stdin.flush()
        wait_until(lambda: rows(kwire, f'select count(*) > 1000 from "{topic}"') == [(True,)], 60, "records")
        query = f'select count(*) as n, sum((value->>\'n\')::int) as s, max("offset") as o from "{topic}"'
        first = kwire("sql", "-o", "json", "--offsets", query)
        stated = first.err.removeprefix("kwire: offsets ").strip()
        writer.stdin.close()
        writer.wait()
    (now,) = kwire("sql", "-o", "json", query).json()
    assert now["n"] == 6000 > json.loads(first.out)[0]["n"]
    again = kwire("sql", "-o", "json", "--as-of", stated, query)
    assert (again.status, again.out) == (0, first.out)

    def from_files() -> Output:
        return kwire("sql", "--data-dir", str(broker.data_dir), "-o", "json", "--as-of", stated, query)

    wait_until(lambda: from_files().out == first.out, 60, "the same from the files")
    beyond = kwire("sql", "--as-of", json.dumps({topic: {"0": [0, 10**9]}}), query)
    assert beyond.status == 1 and "ends before offset" in beyond.err


def test_a_compacted_topic_has_gaps(broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    broker = broker_factory({"log.cleaner.backoff.ms": "50"})
    kwire = Kwire(broker.bootstrap, tmp_path)
    settings = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    options = [word for item in settings.items() for word in ("--config", "=".join(item))]
    assert kwire("topic", "create", "compacted", *options).status == 0
    for part in range(6):
        records = [{"key": b"k%d" % (i % 7), "value": b"%d-%d" % (part, i) + b"x" * 5000} for i in range(100)]
        produce(broker, "compacted", records)
    wait_until(lambda: len(consumed(broker, "compacted")) < 500, 60, "a compaction", 0.2)
    broker.stop()  # its checkpoints say then all that it knows
    newest = 'select key, max_by("offset", "offset") from compacted group by 1 order by 1'
    found = rows(kwire, "--data-dir", str(broker.data_dir), newest)
    assert found == [(f"k{i}", 500 + max(j for j in range(100) if j % 7 == i)) for i in range(7)]
    assert (
        rows(kwire, "--data-dir", str(broker.data_dir), 'select count(*) from compacted where "offset" < 300')[0][0]
        < 300
    )


def test_rows_become_records_and_a_file(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    topic, copy, objects = make_topic(2), make_topic(2, name=new_name("copy")), make_topic(1, name=new_name("objects"))
    records = [
        {"value": b"%d" % i if i % 4 else None, "key": b"k%d" % i, "partition": i % 2, "timestamp": START_MS + i,
         "headers": [("h", b"\xff")]}
        for i in range(50)
    ]  # fmt: skip
    produce(broker, topic, records)
    whole = f'select key, value_bytes as value, headers, partition, timestamp from "{topic}" order by "offset"'
    done = kwire("sql", "--to-topic", copy, whole)
    assert (done.status, done.out) == (0, f"50 rows written to {copy}\n")
    assert consumed(broker, copy, 2) == consumed(broker, topic, 2)
    assert rows(kwire, f'select hex(headers[1].value) from "{copy}" limit 1') == [("FF",)]
    assert (
        kwire("sql", "--to-topic", objects, f'select partition as p, count(*) n from "{topic}" group by 1').status == 0
    )
    assert rows(kwire, f"select value->>'n' from \"{objects}\"") == [("25",), ("25",)]
    path = tmp_path / "rows.parquet"
    assert kwire("sql", "--to", str(path), f'select key, "offset" from "{topic}"').status == 0
    assert pq.read_table(path).num_rows == 50
    failed = kwire("sql", "--to", str(tmp_path / "bad.parquet"), f"select 1 / ('a' || partition)::int from \"{topic}\"")
    assert failed.status == 1
    assert sorted(each.name for each in tmp_path.iterdir() if "parquet" in each.name) == ["rows.parquet"]
    missing = kwire("sql", "--to-topic", new_name("missing"), "select 1 as value")
    assert missing.status == 1 and words(missing)[1] == ""


def test_statements_come_through_a_pipe(kwire: Kwire, broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    produce(broker, topic, [{"value": b"%d" % i} for i in range(10)])
    text = f'create table t as from "{topic}" where "offset" < 4;\nselect count(*) as n from t; select 1 as one'
    assert kwire("sql", "-o", "csv", stdin=text).out == "n\n4\none\n1\n"
    assert kwire("sql", stdin=b"").status == 2
    assert kwire("sql", stdin=b"\xff").status == 1
