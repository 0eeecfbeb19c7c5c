"""Statements, and the tables that they name, as DuckDB's own parser sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.sql.errors import SqlError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA: Final = "topics"
"""The schema with the views: ``topics.orders`` is a topic even if there is a table ``orders``."""
_QUIET: Final = frozenset(
    {"CREATE", "INSERT", "UPDATE", "DELETE", "DROP", "SET", "TRANSACTION", "ALTER", "VARIABLE_SET", "LOAD", "ATTACH"}
    | {"DETACH", "ANALYZE", "VACUUM", "PREPARE", "COPY", "EXPORT", "CREATE_FUNC"}
)
_LISTS: Final = re.compile(r"show\s+tables\s*;?", re.I)
_SHOWS: Final = '"type":"SHOW_REF"'
_IDENTIFIER: Final = re.compile(r'"((?:[^"]|"")*)"|([^\W\d][\w$]*)')


class Statement(NamedTuple):
    """``tables``: names that are tables or views, without those that the statement itself defines. ``topics``: those
    with the schema of topics before them. ``exact``: all of them are tables; otherwise some may be other identifiers.
    ``has_rows``: there is something to show; ``lists``: it is SHOW TABLES."""

    text: str
    tables: frozenset[str]
    topics: frozenset[str]
    exact: bool
    has_rows: bool
    lists: bool


def parse(connection: DuckDBPyConnection, text: str) -> list[Statement]:
    """The statements of a text. `SqlError` for what DuckDB cannot parse."""
    import duckdb

    try:
        found = connection.extract_statements(text)
    except duckdb.Error as error:
        raise SqlError(reason(error)) from None
    statements = []
    for each in found:
        tables, topics, exact = _tables(connection, each.query)
        has_rows = each.type.name.upper() not in _QUIET
        query = each.query.strip()
        lists = _LISTS.fullmatch(query) is not None
        statements.append(Statement(query, frozenset(tables), frozenset(topics), exact, has_rows, lists))
    return statements


def reason(error: Exception) -> str:
    """DuckDB's message on one line, without the text of the statement."""
    words = str(error).partition("\n\nLINE ")[0]
    if re.search(r'syntax error at or near "(offset|from|in|and|desc|asc|between|[<>=,.]+)"', words, re.I):
        words += ' (offset is a word of SQL: the column is written "offset")' if _mentions_offset(str(error)) else ""
    return " ".join(words.split())


def _mentions_offset(message: str) -> bool:
    return re.search(r'(?<!")\boffset\b(?!")', message.partition("\n\nLINE ")[2], re.I) is not None


def _tables(connection: DuckDBPyConnection, query: str) -> tuple[set[str], set[str], bool]:
    """By DuckDB's tree of the statement; by its words for a statement that it gives no tree of (CREATE, INSERT …), for
    DESCRIBE and SHOW, whose names may be no tables (SHOW TABLES), and for expressions that are nested very deeply."""
    ((answer,),) = connection.execute("select json_serialize_sql(?)", [query]).fetchall()
    try:
        tree = json.loads(answer)
        if not tree["error"] and _SHOWS not in answer:
            named = set(_named(tree["statements"], frozenset()))
            return {name for name, own in named if not own}, {name for name, own in named if own}, True
    except RecursionError:
        pass
    found = _IDENTIFIER.finditer(query)
    words = {each[2] if each[1] is None else each[1].replace('""', '"') for each in found}
    return words, words if SCHEMA in map(str.lower, words) else set(), False


def _named(node: Any, defined: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """The tables below a node, without those that WITH defines around it, and whether they are called topics."""
    if isinstance(node, list):
        for each in node:
            yield from _named(each, defined)
        return
    if not isinstance(node, dict):
        return
    if node.get("type") == "BASE_TABLE":
        yield from _base_table(node, defined)
    if node.get("type") == "RECURSIVE_CTE_NODE":
        defined = defined | {str(node.get("cte_name", "")).lower()}
    definitions = node.get("cte_map", {}).get("map", []) if isinstance(node.get("cte_map"), Mapping) else []
    for each in definitions:
        yield from _named(each["value"], defined)
        defined = defined | {each["key"].lower()}
    for name, below in node.items():
        if name != "cte_map":
            yield from _named(below, defined)


def _base_table(node: Mapping[str, Any], defined: frozenset[str]) -> Iterator[tuple[str, bool]]:
    name, schema = str(node["table_name"]), str(node.get("schema_name", ""))
    if schema.lower() == SCHEMA:
        yield name, True
    elif not schema and not node.get("catalog_name") and name.lower() not in defined:
        yield name, False
