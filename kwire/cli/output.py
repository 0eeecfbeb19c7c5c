"""What commands print: rows of one type per command, as a table, JSON, JSON Lines or YAML.

A row is a NamedTuple. Its fields are the names in JSON and YAML, and (in capitals) the headings of the table, which may
show fewer of them. JSON is an array of objects for a list and one object for one thing; JSON Lines has one a line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import argparse

FORMATS: Final = ("table", "json", "jsonl", "yaml")
NOTHING: Final = "-"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option ``-o``."""
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        metavar="FORMAT",
        help="table, json, jsonl or yaml (default: table)",
    )


def show(rows: Sequence[Any], output: str, columns: Sequence[str] = ()) -> None:
    """Print a list. ``columns``: the fields that the table has; all by default."""
    if output == "table":
        _table(rows, columns)
    elif output == "jsonl":
        _lines(rows)
    else:
        _document([plain(row) for row in rows], output)


def show_one(row: Any, output: str) -> None:
    """Print one thing: as a table, a line for each field."""
    if output == "table":
        width = max(map(len, row._fields))
        for name, value in zip(row._fields, row, strict=True):
            print(f"{emphasized(name.replace('_', ' ').ljust(width))}  {cell(value)}".rstrip())
    elif output == "jsonl":
        _lines([row])
    else:
        _document(plain(row), output)


def show_done(rows: Sequence[Any], output: str, lines: Iterable[str]) -> None:
    """Print what a command has changed: in ``lines`` for people, as rows for programs."""
    if output != "table":
        show(rows, output)
        return
    for line in lines:
        print(line)


def show_one_done(row: Any, output: str, line: str | None) -> None:
    """`show_done` of one thing. ``line``: None if people see nothing of it."""
    if output != "table":
        show_one(row, output)
    elif line is not None:
        print(line)


class JsonArray:
    """A JSON array that is printed as it comes."""

    def __init__(self) -> None:
        self._separator = "["

    def add(self, text: str) -> None:
        """Print the next element."""
        print(f"{self._separator}\n  {text}", end="")
        self._separator = ","

    def close(self) -> None:
        """Print the end."""
        print("[]" if self._separator == "[" else "\n]")


class Stream:
    """A list that is printed as it comes, however long it is. ``text`` is a line of it for people."""

    def __init__(self, output: str, text: Callable[[dict[str, Any]], str]) -> None:
        self._output = output
        self._text = text
        self._array = JsonArray()
        self._is_empty = True

    def add(self, row: dict[str, Any]) -> None:
        """Print what comes next."""
        if self._output == "table":
            print(self._text(row))
            return
        from json import dumps

        line = dumps(row, default=str, ensure_ascii=self._output != "yaml")
        if self._output == "json":
            self._array.add(line)
        else:  # JSON is a part of YAML
            print(f"- {line}" if self._output == "yaml" else line)
        self._is_empty = False

    def close(self) -> None:
        """Print what comes after the last one."""
        if self._output == "json":
            self._array.close()
        elif self._output == "yaml" and self._is_empty:
            print("[]")


def plain(value: Any) -> Any:
    """A row, and what is in it, as JSON has it."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    if isinstance(value, list):
        return ",".join(map(cell, value))
    return str(value)


def _table(rows: Sequence[Any], columns: Sequence[str]) -> None:
    if not rows:
        return
    columns = columns or rows[0]._fields
    values = [[getattr(row, name) for row in rows] for name in columns]
    right = [all(isinstance(value, int | None) and not isinstance(value, bool) for value in each) for each in values]
    texts = [[cell(value) for value in each] for each in values]
    headings = [name.replace("_", " ").upper() for name in columns]
    widths = [max(len(heading), *map(len, each)) for heading, each in zip(headings, texts, strict=True)]
    _print_row(headings, widths, right, bold=True)
    for row in zip(*texts, strict=True):
        _print_row(row, widths, right)


def _print_row(texts: Iterable[str], widths: Sequence[int], right: Sequence[bool], bold: bool = False) -> None:
    cells = (
        text.rjust(width) if number else text.ljust(width)
        for text, width, number in zip(texts, widths, right, strict=True)
    )
    line = "  ".join(cells).rstrip()
    print(emphasized(line) if bold else line)


def emphasized(text: str) -> str:
    """In bold on a terminal, unless NO_COLOR (no-color.org) is set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        return f"{_BOLD}{text}{_PLAIN}"
    return text


def _lines(rows: Sequence[Any]) -> None:
    from json import dumps

    for row in rows:
        print(dumps(plain(row), ensure_ascii=False))


def _document(value: Any, output: str) -> None:
    if output == "json":
        from json import dumps

        print(dumps(value, indent=2, ensure_ascii=False))
        return
    import yaml

    print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
