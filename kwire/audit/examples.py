"""Reading faulty records again, to show what they hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.errors import ReadError
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.files.segments import FileRange
from kwire.arrow.ranges import Range
from kwire.audit.ends import DirectoryEnd, TableEnd
from kwire.audit.planning import Plan
from kwire.audit.rows import ContentRow, ExampleRow, KeyRow
from kwire.audit.spilling import read_piece, table_rows
from kwire.audit.work import Work, database

if TYPE_CHECKING:
    import duckdb

TEXT_MAX: Final = 600
"""Characters of a value that are shown."""
KEYS: Final = 10
_KEY_MAX: Final = 100
_MEMORY_MB: Final = 128


class Contents:
    """Reads single records of an end. What is gone meanwhile is None."""

    def __init__(self, plan: Plan, work: Work, *, committed: bool) -> None:
        self._plan = plan
        self._work = work
        self._committed = committed

    def at(self, partition: int, position: int) -> ContentRow | None:
        """The record at an offset of a partition, or the row of a file."""
        if isinstance(self._plan.end, TableEnd):
            return self._row(partition, position)
        end, wanted = self._plan.end, Range(self._plan.end.topic, partition, position, position + 1)
        try:
            piece: Range | FileRange = wanted
            if isinstance(end, DirectoryEnd):
                place = (end.topic, partition)
                visible = DataDirectory(end.path).visible(place, committed=self._committed)
                piece = FileRange(wanted, visible.end, visible.identity)
            with closing(iter(read_piece(end, piece, committed=self._committed, headers=False))) as batches:  # type: ignore[type-var] # generators
                return next(_contents(batches), None)
        except ReadError:
            return None

    def _row(self, file: int, number: int) -> ContentRow:
        con = database(":memory:", self._work.folder, _MEMORY_MB, 1)
        try:
            query = f"SELECT * EXCLUDE (file_row_number) FROM {table_rows(con, self._plan.tables[file])}"
            found = con.execute(f"{query} WHERE file_row_number = ?", [number])
            names = [each[0] for each in found.description or ()]
            row = dict(zip(names, found.fetchone() or (), strict=False))
        finally:
            con.close()
        key = row.get("key")
        shown = {name: text(value) if isinstance(value, bytes) else value for name, value in row.items()}
        value = json.dumps(shown, ensure_ascii=False, default=str)[:TEXT_MAX]
        return ContentRow(file, number, None, key if key is None or isinstance(key, str) else text(key), value)


def _contents(batches: Iterator[Any]) -> Iterator[ContentRow]:
    for batch in batches:
        for row in batch.to_pylist():
            stamp = round(row["timestamp"].timestamp() * 1000)
            yield ContentRow(row["partition"], row["offset"], stamp, text(row["key"]), text(row["value"]))


def text(content: object) -> str | None:
    """The beginning of bytes for people: as text if they are some."""
    if content is None:
        return None
    if not isinstance(content, bytes):
        return str(content)[:TEXT_MAX]
    try:
        found = content.decode()
    except UnicodeDecodeError:
        found = "base64:" + base64.b64encode(content[:TEXT_MAX]).decode()
    return found[:TEXT_MAX]


def examples(con: duckdb.DuckDBPyConnection, sides: Sequence[Contents], count: int) -> list[ExampleRow]:
    """The first faults of each kind."""
    found = con.execute(
        "SELECT kind, part_a, pos_a, part_b, pos_b FROM (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY"
        " coalesce(part_a, part_b), coalesce(pos_a, pos_b)) AS n FROM faults) WHERE n <= ? ORDER BY kind, n",
        [count],
    ).fetchall()
    return [
        ExampleRow(
            kind,
            None if pos_a is None else sides[0].at(part_a, pos_a),
            None if pos_b is None else sides[1].at(part_b, pos_b),
        )
        for kind, part_a, pos_a, part_b, pos_b in found
    ]


def keys(con: duckdb.DuckDBPyConnection, sides: Sequence[Contents]) -> list[KeyRow]:
    """The keys with most faults, each by a record of it."""
    found = con.execute(
        "SELECT count(*) AS n, any_value(kind), arg_min(part_a, pos_a), min(pos_a), arg_min(part_b, pos_b), min(pos_b)"
        " FROM faults WHERE scope IS NOT NULL GROUP BY scope ORDER BY n DESC, scope LIMIT ?",
        [KEYS],
    ).fetchall()
    rows = []
    for count, _, part_a, pos_a, part_b, pos_b in found:
        content = sides[0].at(part_a, pos_a) if pos_a is not None else sides[1].at(part_b, pos_b)
        rows.append(KeyRow(content and content.key and content.key[:_KEY_MAX], count))
    return rows
