"""``kwire produce`` and ``kwire consume``: the same records and the same output on both brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from compat_tests.comparisons.cli.conftest import Kwire, Output
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker

ALL = ("--from", "earliest", "--until-end")


def values(consumed: Output) -> list[str]:
    """The records of a command that has read all there are."""
    assert (consumed.status, consumed.err) == (0, "")
    return consumed.out.splitlines()


def test_records_come_back_as_they_were_written(
    kwire: Kwire, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(3)
    written = kwire("produce", topic, "-k", ":", stdin="a:1\nb:2\na:3\nno key\n:empty key\nc:\n")
    assert written == (0, f"6 records written to {topic}\n", "")
    shown = kwire("consume", topic, *ALL, "-f", "%p %k %v\\n")
    lines = [line.split(" ", 1)[1] for line in values(shown)]
    assert sorted(lines) == sorted(["a 1", "b 2", "a 3", " no key", " empty key", "c "])
    observe("keys", sorted(line for line in values(shown) if not line.endswith("no key")))
    records = [json.loads(line) for line in values(kwire("consume", topic, *ALL, "-o", "jsonl"))]
    assert [list(each) for each in records] == [
        ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    ] * 6
    assert kwire("consume", topic, *ALL, "-o", "json").json() == records
    observe("no records", kwire("consume", topic, "--from", "latest", "--until-end", "-o", "json"))


def test_keys_go_to_the_partitions_of_kafkas_clients(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str]
) -> None:
    ours, theirs = make_topic(7), make_topic(7)
    keys = ["", "x", "Ünïcode", *(f"key-{index * 37}" for index in range(60))]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2", "log_level": 0})
    for key in keys:
        producer.produce(theirs, b"v", key.encode())
    assert producer.flush(20) == 0
    assert kwire("produce", ours, "-k", "=", stdin="".join(f"{key}=v\n" for key in keys)).status == 0
    placed = [sorted(values(kwire("consume", topic, *ALL, "-f", "%k %p\\n"))) for topic in (ours, theirs)]
    assert placed[0] == placed[1] and len(placed[0]) == len(keys)


def test_json_lines_are_copied_from_topic_to_topic(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic, copy = make_topic(2), make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index, (key, value) in enumerate([(b"k", b"caf\xc3\xa9"), (None, b"\xff\0"), (b"\xfe", None), (b"", b"")]):
        headers: Any = [("h", b"\xff"), ("h", None), ("n", b"1")] if index % 2 else None
        producer.produce(topic, value, key, partition=index % 2, timestamp=1_760_000_000_000 + index, headers=headers)
    assert producer.flush(20) == 0
    lines = kwire("consume", topic, *ALL, "-o", "jsonl").out
    assert '"value": {"base64": "/wA="}' in lines and '"value": null' in lines and '"value": "café"' in lines
    assert (
        kwire("produce", copy, "-i", "jsonl", "--keep-partitions", stdin=lines).out == f"4 records written to {copy}\n"
    )
    copied = kwire("consume", copy, *ALL, "-o", "jsonl").out
    assert sorted(copied.replace(copy, topic).splitlines()) == sorted(lines.splitlines())


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_client_reads_what_is_written(
    compression: str, kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names
) -> None:
    topic = make_topic(1)
    lines = [f"line {index}" for index in range(12_345)]
    written = kwire("produce", topic, "-z", compression, "-H", "a=1", "--key", "k", stdin="\n".join(lines))
    assert written.out == f"12345 records written to {topic}\n"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": new_name("group")})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[Any] = []
    while len(read) < len(lines):
        read += consumer.consume(len(lines) - len(read), 10)
    consumer.close()
    assert [(each.key(), each.value().decode(), each.headers()) for each in read] == [
        (b"k", line, [("a", b"1")]) for line in lines
    ]
    assert values(kwire("consume", topic, *ALL)) == lines


def test_the_end_is_an_offset_though_markers_and_aborted_records_are_before_it(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic = make_topic(1)
    config = {"bootstrap.servers": broker.bootstrap, "transactional.id": new_name("transaction"), "log_level": 0}
    producer = Producer(config)
    producer.init_transactions(20)
    for commit in (True, False, True, False):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, f"{commit}-{index}".encode())
        producer.flush(20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
    committed = ("--isolation", "read_committed")
    observe("read_uncommitted", values(kwire("consume", topic, *ALL, "-f", "%o %v\\n")))
    observe("read_committed", values(kwire("consume", topic, *ALL, *committed, "-f", "%o %v\\n")))
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    assert len(values(kwire("consume", topic, *ALL))) == 13
    assert values(kwire("consume", topic, *ALL, *committed)) == [f"True-{index}" for index in (0, 1, 2)] * 2
    producer.abort_transaction(20)
    assert len(values(kwire("consume", topic, "--from", "13", "--until-end", *committed))) == 0


def test_a_part_is_chosen_by_position_partition_number_and_filter(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(20):
        time = 1_760_000_000_000 + 1000 * index
        value = json.dumps({"n": index, "name": f"name {index}"})
        producer.produce(topic, value, f"k{index}", index % 2, timestamp=time, headers={"even": str(index % 4 == 0)})
    assert producer.flush(20) == 0
    for name, options in {
        "offset": ["--from", "7"],
        "last": ["--from", "-2"],
        "time": ["--from", "@1760000015000"],
        "ISO time": ["--from", "2025-10-09T08:53:36Z"],
        "after all": ["--from", "2999-01-01"],
        "partition": ["-p", "1", "--from", "8"],
        "number": ["-n", "3", "-p", "0"],
        "key": ["--filter-key", "^k1?5$"],
        "value": ["--filter-value", "name 7"],
        "header": ["--filter-header", "even=True"],
        "JSON": ["--filter-json", "$.n>=17"],
        "JSON and key": ["--filter-json", "$.name~1", "--filter-key", "[02468]$", "-n", "2", "-p", "0"],
    }.items():
        observe(name, sorted(values(kwire("consume", topic, "--until-end", "-f", "%p %o %k\\n", *options))))


@pytest.mark.parametrize("count", [None, 7])
def test_a_group_continues_where_it_was(
    count: int | None, kwire: Kwire, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic, group = make_topic(2), new_name("group")
    assert kwire("produce", topic, "-k", ":", stdin="".join(f"{i}:{i}\n" for i in range(20))).status == 0
    some = () if count is None else ("-n", str(count))
    first = values(kwire("consume", topic, "-g", group, "--until-end", *some))
    assert len(first) == (count or 20)
    lag = kwire("group", "lag", group, "-o", "json").json()
    assert sum(each["lag"] if each["lag"] is not None else each["end"] for each in lag) == 20 - len(first)
    rest = values(kwire("consume", topic, "-g", group, "--until-end"))
    assert sorted(map(int, first + rest)) == list(range(20))
    observe("lag", kwire("group", "lag", group, "-o", "json").json())


def test_options_of_produce(kwire: Kwire, make_topic: Callable[..., str], tmp_path: object) -> None:
    topic = make_topic(3)
    assert kwire("produce", topic, "--acks", "0", "-p", "2", stdin="none").status == 0
    assert kwire("produce", topic, "--acks", "1", "-p", "2", "-D", ";", stdin="one;two\n;").status == 0
    assert kwire("produce", topic, "-Z", "--key", "k", "-p", "2", "--no-idempotence", stdin="\n").status == 0
    records = [json.loads(line) for line in values(kwire("consume", topic, "-p", "2", *ALL, "-o", "jsonl"))]
    assert [(each["key"], each["value"]) for each in records] == [
        (None, "none"),
        (None, "one"),
        (None, "two\n"),
        ("k", None),
    ]
    assert kwire("produce", topic, "-o", "json", stdin="").json() == {"topic": topic, "records": 0}


def test_batches_larger_than_a_topic_takes_are_split(
    kwire: Kwire, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(1, {"max.message.bytes": "2000"})
    lines = [f"{index} {'x' * 100}" for index in range(300)]
    assert kwire("produce", topic, stdin="\n".join(lines)).out == f"300 records written to {topic}\n"
    assert values(kwire("consume", topic, *ALL)) == lines
    refused = kwire("produce", topic, stdin=f"small\n{'x' * 3000}\nother\n")
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "MESSAGE_TOO_LARGE" in refused.err and f"1 record written to {topic}" in refused.err
    assert values(kwire("consume", topic, "--from", "-1", "--until-end")) == ["small"]
    observe("too large", re.sub(r"batch size is \d+|topic \S+|to \S+|\S+-0", "", refused.err))


def test_what_is_not_there_is_refused_in_a_line(
    kwire: Kwire, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    unknown, topic = new_name("unknown"), make_topic(2)
    for arguments in (
        ("consume", unknown, "--until-end"),
        ("consume", unknown, "-g", new_name("group")),
        ("produce", unknown),
        ("consume", topic, "-p", "2"),
        ("produce", topic, "-p", "2"),
        ("produce", topic, "/no/such/file"),
        ("produce", topic, "-i", "jsonl"),
        ("consume", unknown, "-b", "127.0.0.1:1", "--timeout", "0.3"),
        ("produce", unknown, "-b", "127.0.0.1:1", "--timeout", "0.3"),
    ):
        refused = kwire(*arguments, stdin="no JSON\n")
        assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1), refused
        assert refused.err.startswith("kwire: ")
        observe(str(arguments[0:1] + arguments[2:3]), refused.err) if arguments[1] == topic else None
    refused = kwire("consume", unknown, "--until-end")
    assert refused.err == f"kwire: topic {unknown}: there is no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)\n"


def test_wrong_usage_has_status_2(kwire: Kwire) -> None:
    for arguments in (
        ("consume", "t", "-f", "%q"),
        ("consume", "t", "--from", "soonish"),
        ("consume", "t", "--filter-key", "("),
        ("consume", "t", "--filter-json", "a.b>x"),
        ("consume", "t", "-g", "g", "-p", "1"),
        ("consume", "t", "--no-such-option"),
        ("consume", "t", "-f", "%v", "-o", "json"),
        ("produce", "t", "-k", ""),
        ("produce", "t", "-k", "\\q"),
        ("produce", "t", "-i", "jsonl", "-k", ":"),
        ("produce", "t", "--keep-partitions"),
        ("produce", "t", "-z", "brotli"),
        ("produce", "t", "--rate", "-1"),
    ):
        refused = kwire(*arguments)
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1), refused
