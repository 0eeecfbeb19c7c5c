"""Statements over topics in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.arrow.errors import ReadError
from kwire.sql.errors import SqlError
from kwire.sql.session import Session
from kwire.sql.topics.forms import Forms
from kwire.sql.topics.spans import Span
from tests.sql.memory import MemoryTopics, Record, session

START_MS = 1_763_000_000_000
ORDERS = {
    number: [
        Record(json.dumps({"n": index, "region": "eu" if index % 2 else "us"}).encode(), b"k%d" % (index % 7),
               START_MS + index * 1000, [("h", b"1")] if index % 10 == 0 else [])
        for index in range(300)
    ]
    for number in range(2)
}  # fmt: skip
TOPICS: dict[str, dict[int, list[Record]]] = {
    "orders": ORDERS,
    "my-topic": {0: [Record(b"plain"), Record(b"\xc3\xa4", b'{"k": 1}'), Record(None)]},
    "Mixed": {0: [Record(b"\xff\x00")]},
    "late": {0: [*[Record(b"1")] * 1500, *[Record(b"{")] * 3, *[Record(b"2")] * 1500]},
    "twin": {0: []},
    "TWIN": {0: []},
    "empty": {0: []},
    "tables": {0: [Record(b"1")]},
    "pg_class": {0: [Record(b"1")]},
}


@pytest.fixture
def source() -> MemoryTopics:
    return MemoryTopics(TOPICS)


@pytest.fixture
def opened(source: MemoryTopics, tmp_path: Path) -> Iterator[Session]:
    made = session(source, tmp_path)
    yield made
    made.close()


def rows(opened: Session, text: str) -> list[tuple[object, ...]]:
    (statement,) = opened.statements(text)
    relation = opened.run(statement)
    return [] if relation is None else relation.fetchall()


def types(opened: Session, topic: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in rows(opened, f'describe "{topic}"')}


def test_a_topic_is_a_table(opened: Session) -> None:
    found = rows(opened, "select value->>'region', count(*) from orders group by 1 order by 1")
    assert found == [("eu", 300), ("us", 300)]
    assert rows(opened, "select headers[1].key, headers[1].value from orders where len(headers) > 0 limit 1") == [
        ("h", b"1")
    ]
    assert list(types(opened, "orders")) == [
        "key", "value", "headers", "partition", "offset", "timestamp", "value_bytes", "key_bytes",
    ]  # fmt: skip
    assert types(opened, "orders")["timestamp"] == "TIMESTAMP WITH TIME ZONE"


def test_keys_and_values_have_types_by_samples(opened: Session) -> None:
    found = {topic: (types(opened, topic)["key"], types(opened, topic)["value"]) for topic in ("orders", "my-topic")}
    assert found == {"orders": ("VARCHAR", "JSON"), "my-topic": ("JSON", "VARCHAR")}
    assert types(opened, "Mixed")["value"] == "BLOB"
    assert rows(opened, 'select value from "my-topic"') == [("plain",), ("ä",), (None,)]


def test_types_that_are_chosen_win(source: MemoryTopics, tmp_path: Path) -> None:
    forms = Forms({}, {"": "blob", "my-topic": "json"})
    opened = session(source, tmp_path, forms=forms)
    assert types(opened, "orders")["value"] == "BLOB"
    assert types(opened, "my-topic")["value"] == "JSON"


def test_a_late_record_that_does_not_fit_is_null_and_counted(opened: Session) -> None:
    assert rows(opened, "select count(*), count(value), count(value_bytes) from late") == [(3003, 3000, 3003)]
    assert [each.misfits["value"].misfits for each in opened.scans] == [3]
    assert rows(opened, 'select count(*) from late where value is null and "offset" < 1502') == [(2,)]


def test_only_what_matches_is_read(opened: Session, source: MemoryTopics) -> None:
    text = (
        'with part as (select * from orders where partition = 1) select count(*) from part where "offset" >= 290 '
        "and timestamp < timestamptz '2025-11-13 02:18:15+00'"
    )
    assert rows(opened, text) == [(5,)]
    (scan,) = opened.scans
    assert (scan.counts.offsets, scan.counts.offsets_there) == (10, 600)


def test_a_limit_ends_the_reading(tmp_path: Path) -> None:
    source = MemoryTopics({"big": {0: [Record(b"1")] * 100_000}})
    opened = session(source, tmp_path)
    assert len(rows(opened, "select value from big limit 5")) == 5
    assert source.reads < 300  # of 1000


def test_names_are_those_of_topics(opened: Session) -> None:
    assert rows(opened, "select count(*) from ORDERS") == [(600,)]
    with pytest.raises(SqlError, match=r'^there is no topic order at memory: did you mean "orders"\?$'):
        rows(opened, 'select * from "order"')
    with pytest.raises(SqlError, match=r"^there is no topic or table nothing at memory$"):
        rows(opened, "describe nothing")
    with pytest.raises(SqlError, match="topic Twin may be TWIN or twin"):
        rows(opened, "select * from Twin")
    with pytest.raises(SqlError, match="differ only in upper and lower case"):
        rows(opened, "select * from twin, TWIN")
    assert rows(opened, "select count(*) from tables") == rows(opened, "select count(*) from topics.pg_class") == [(1,)]
    assert rows(opened, "select count(*) from pg_class") == [(1,)]
    assert rows(opened, "select count(*) > 0 from duckdb_schemas") == [(True,)]
    assert rows(opened, "pivot orders on partition using count(*) group by key")[0][1:] == (43, 43)
    rows(opened, "create table late as select 1 as n")
    assert rows(opened, "select count(*) from late, topics.late as l") == [(3003,)]
    rows(opened, 'create table "my-topic" as select 1 as n')
    assert rows(opened, 'select * from "my-topic"') == [(1,)]
    assert rows(opened, 'select count(*) from topics."my-topic"') == [(3,)]


def test_topics_are_listed_as_tables(opened: Session) -> None:
    rows(opened, "select count(*) from orders")
    rows(opened, "create table mine as select 1 as a")
    rows(opened, "create view yours as from orders")
    for text in ("show tables", "SHOW  Tables;"):
        assert rows(opened, text) == [(name,) for name in sorted([*TOPICS, "mine", "yours"])]


def test_tables_of_ones_own_are_made_of_topics(opened: Session) -> None:
    rows(opened, 'create table t as select partition, max("offset") as last from orders group by 1')
    assert rows(opened, "select * from t order by 1") == [(0, 299), (1, 299)]
    assert rows(opened, "select count(*) from empty") == [(0,)]
    assert rows(opened, "select value->>'x' from empty") == []


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "copy (select 1) to '/tmp/kwire-sql-never.csv'",
        "attach '/tmp/kwire-sql-never.db'",
        "install httpfs",
        "set enable_external_access = true",
    ],
)
def test_statements_reach_no_files(opened: Session, text: str) -> None:
    with pytest.raises(SqlError, match=r"disabled|Cannot enable"):
        rows(opened, text)


def test_files_are_reached_if_that_is_allowed(source: MemoryTopics, tmp_path: Path) -> None:
    opened = session(source, tmp_path, files=True)
    rows(opened, f"copy (select 7 as n) to '{tmp_path}/made.csv'")
    assert (tmp_path / "made.csv").read_text() == "n\n7\n"


def test_offsets_that_are_stated_give_the_same_again(source: MemoryTopics, tmp_path: Path) -> None:
    opened = session(source, tmp_path, as_of={"orders": {0: Span(10, 20)}})
    assert rows(opened, "select count(*), min(partition) from orders") == [(10, 0)]
    assert opened.snapshot == {"orders": {0: Span(10, 20)}}
    with pytest.raises(SqlError, match="--as-of does not name the topic my-topic"):
        rows(opened, 'from "my-topic"')
    for wanted, reason in (({0: Span(0, 301)}, "ends before offset 300"), ({9: Span(0, 1)}, "no partition 9")):
        with pytest.raises(SqlError, match=reason):
            rows(session(source, tmp_path, as_of={"orders": wanted}), "from orders")


def test_a_failure_to_read_says_why(tmp_path: Path) -> None:
    opened = session(MemoryTopics({"bad": {0: [Record(b"1")] * 300}}, ReadError("bad-0: CRC of offset 7")), tmp_path)
    with pytest.raises(ReadError, match=r"^bad-0: CRC of offset 7$"):
        try:
            rows(opened, "select sum(octet_length(value_bytes)) from bad")
        except Exception as error:
            raise opened.failure(error) from None
