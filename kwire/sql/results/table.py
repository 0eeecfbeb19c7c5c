"""Rows as a table for people: as wide as the terminal, so many rows at most."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from kwire.cli.output import emphasized
from kwire.sql.results.texts import Column

NULL: Final = "NULL"
_GAP: Final = "  "
_NARROW: Final = 8
"""A column is not made narrower than this."""
_CUT: Final = "…"


def lines(columns: Sequence[Column], rows: Sequence[Sequence[str | None]], width: int | None) -> list[str]:
    """The table; ``width``: columns of the terminal, None for any."""
    cells = [[_shown(value) for value in row] for row in rows]
    names = [_shown(each.name) for each in columns]
    widths = [max(map(columns_of, column)) for column in zip(names, *cells, strict=True)]
    if width is not None:
        widths = _fitting(widths, width)
    heading = _line(names, widths, columns)
    return [emphasized(heading), *(_line(row, widths, columns) for row in cells)]


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _shown(value: str | None) -> str:
    """On one line, and without characters that a terminal would obey."""
    if value is None:
        return NULL
    if value.isprintable():
        return value
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in value)


def _fitting(widths: list[int], width: int) -> list[int]:
    """Widths that together fit, by making the widest narrower."""
    left = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > left and max(widths) > _NARROW:
        widest = max(widths)
        over = sum(widths) - left
        below = max((each for each in widths if each < widest), default=_NARROW)
        same = widths.count(widest)
        to = max(_NARROW, below, widest - -(-over // same))
        widths = [to if each == widest else each for each in widths]
    return widths


def _line(cells: Iterable[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    parts = []
    for text, width, column in zip(cells, widths, columns, strict=True):
        cut = _cut(text, width)
        space = " " * (width - columns_of(cut))
        parts.append(space + cut if column.is_number else cut + space)
    return _GAP.join(parts).rstrip()


def _cut(text: str, width: int) -> str:
    if columns_of(text) <= width:
        return text
    kept, used = [], 0
    for each in text:
        used += columns_of(each)
        if used > width - 1:
            break
        kept.append(each)
    return "".join(kept) + _CUT
