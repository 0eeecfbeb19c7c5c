"""The tables that statements name, and DuckDB's messages."""

from __future__ import annotations

import duckdb
import pytest

from kwire.sql.errors import SqlError
from kwire.sql.statements import parse


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": "1"})


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select * from orders", {"orders"}),
        ('from "my-topic"', {"my-topic"}),
        ('from "we""ird.$ topic"', {'we"ird.$ topic'}),
        ("select * from 'my-topic'", {"my-topic"}),
        ("select * from topics.orders, other.thing", {"orders"}),
        ("with a as (select * from b) select * from a join c using (key)", {"b", "c"}),
        ("with orders as (select * from orders) select * from orders", {"orders"}),
        ("with A as (select 1) select * from a", set()),
        ("with recursive r as (select 1 as n union all select n + 1 from r, limits) select * from r", {"limits"}),
        ("select (select count(*) from z), key in (select key from y) from x", {"x", "y", "z"}),
        ("select * from (with a as (select 1) from a), a", {"a"}),
        ("select * from a union all select * from b order by 1", {"a", "b"}),
        ("select 1 from range(3)", set()),
        ("select 'from nowhere' -- from never", set()),
    ],
)
def test_tables_are_those_of_the_parser(connection: duckdb.DuckDBPyConnection, text: str, tables: set[str]) -> None:
    (statement,) = parse(connection, text)
    assert statement.exact
    assert statement.tables | statement.topics == tables
    assert bool(statement.topics) == ("topics." in text)


@pytest.mark.parametrize(
    "text",
    [
        "describe orders",
        "show orders",
        "create table t as select * from orders",
        "explain select * from orders",
        'pivot "orders" on key',
    ],
)
def test_statements_without_a_tree_name_at_least_their_tables(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    (statement,) = parse(connection, text)
    assert not statement.exact
    assert "orders" in statement.tables


def test_an_expression_may_be_nested_deeply(connection: duckdb.DuckDBPyConnection) -> None:
    (statement,) = parse(connection, f"select {'+'.join(['1'] * 900)} from orders")
    assert "orders" in statement.tables


def test_a_text_has_several_statements(connection: duckdb.DuckDBPyConnection) -> None:
    statements = parse(connection, "create table t (n int); select ';' from t; ")
    assert [each.has_rows for each in statements] == [False, True]
    assert parse(connection, " -- nothing\n") == []


def test_a_wrong_statement_is_one_line(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(SqlError, match=r"^Parser Error: syntax error at or near \"selec\"$"):
        parse(connection, "selec\n1")


def test_offset_is_explained(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(SqlError, match=r'the column is written "offset"'):
        parse(connection, "select offset from orders")
