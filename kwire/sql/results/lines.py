"""Rows on standard output: a table, JSON, JSON Lines or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kwire.cli.output import JsonArray
from kwire.sql.results import table
from kwire.sql.results.running import Rows
from kwire.sql.results.texts import Texts, unique
from kwire.sql.session import Session

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("table", "json", "jsonl", "csv")
_PLAN: Final = ["explain_key", "explain_value"]
TABLE_ROWS: Final = 500
"""Rows that a table shows unless another number is given; 0 for all."""


def show(session: Session, rows: Rows, form: str, rows_max: int) -> None:
    """Print the rows of the statement that was begun. ``rows_max``: of a table."""
    if form == "table" and [each.name for each in rows.columns] == _PLAN:
        _plan(session, rows)
    elif form == "table":
        _table(session, rows, rows_max)
    elif form == "csv":
        _csv(session, rows)
    else:
        _json(session, rows, lines=form == "jsonl")


def _plan(session: Session, rows: Rows) -> None:
    """What EXPLAIN answers: drawings of several lines."""
    texts = Texts(session.connection, rows.columns, rows.zone)
    for batch in rows.batches():
        for _, drawing in texts.cells(batch):
            print(drawing)


def _json(session: Session, rows: Rows, *, lines: bool) -> None:
    texts = Texts(session.connection, unique(rows.columns), rows.zone)
    objects = (text for batch in rows.batches() for text in texts.objects(batch))
    if lines:
        for text in objects:
            print(text)
        return
    array = JsonArray()
    for text in objects:
        array.add(text)
    array.close()


def _csv(session: Session, rows: Rows) -> None:
    texts = Texts(session.connection, rows.columns, rows.zone)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([each.name for each in rows.columns])
    for batch in rows.batches():
        writer.writerows(texts.cells(batch))


def _table(session: Session, rows: Rows, rows_max: int) -> None:
    """Up to ``rows_max`` rows; if there are more the last line says so."""
    texts = Texts(session.connection, rows.columns, rows.zone)
    found: list[tuple[str | None, ...]] = []
    batches = rows.batches()
    for batch in _until(batches, rows_max):
        found += texts.cells(batch)
    more = bool(rows_max) and len(found) > rows_max
    shown = found[:rows_max] if more else found
    for line in table.lines(rows.columns, shown, table.terminal_width()):
        print(line)
    if more:
        print(f"(the first {rows_max} rows; --rows N shows more, --rows 0 all)")
    else:
        print(f"({len(shown)} row{'s' * (len(shown) != 1)})")


def _until(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Batches until there is a row more than is shown."""
    seen = 0
    for batch in batches:
        wanted = batch.num_rows if not rows_max else min(batch.num_rows, rows_max + 1 - seen)
        yield batch.slice(0, wanted)
        seen += wanted
        if rows_max and seen > rows_max:
            break
    getattr(batches, "close", lambda: None)()
