"""How ``kwire consume`` writes records: by a format string, as JSON Lines, or as one of the formats of other commands.

Records are written as they come: a JSON array is opened, continued and closed, and a table's columns have fixed widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Final

from kwire.cli.records.columns import Columns
from kwire.cli.records.formats import compile_format, iso_text
from kwire.cli.records.json_lines import json_lines, json_objects

KINDS: Final = ("table", "json", "jsonl", "yaml")
FORMAT_DEFAULT: Final = "%v\\n"
_WIDTHS: Final = (9, 10, 24, 20)
_HEADINGS: Final = ("PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE")


class Output:
    """Records go to a file, those of a batch at once. ``BrokenPipeError`` if its reader has closed it, OSError if the
    disk is full."""

    def __init__(
        self, file: IO[bytes], write: Callable[[Columns], bytes], head: bytes = b"", tail: bytes = b""
    ) -> None:
        self.count = 0
        self._file = file
        self._write = write
        self._head = head
        self._tail = tail

    def add(self, columns: Columns) -> None:
        """Write the records of a batch."""
        if len(columns):
            content = self._write(columns)
            self._put(self._head + content if self._head else content)
            self._head = b""
            self.count += len(columns)

    def close(self) -> None:
        """Write what comes after the last record."""
        self._put(self._head + self._tail)

    def _put(self, content: bytes) -> None:
        self._file.write(content)
        self._file.flush()


def output_to(file: IO[bytes], kind: str | None, format_text: str | None) -> Output:
    """The output of a command's options. ValueError for a format string that is wrong."""
    if kind is None:
        return Output(file, compile_format(FORMAT_DEFAULT if format_text is None else format_text))
    if kind == "jsonl":
        return Output(file, json_lines)
    if kind == "json":
        return Output(file, _JsonArray().write, b"[", b"\n]\n")
    if kind == "yaml":  # of which JSON is a part
        return Output(file, _yaml_list)
    return Output(file, _table_rows, _row(_HEADINGS))


class _JsonArray:
    """The elements of an array; a comma stands in front of each but the first."""

    def __init__(self) -> None:
        self._separator = "\n"

    def write(self, columns: Columns) -> bytes:
        elements = [f"  {each}" for each in json_objects(columns)]
        separator, self._separator = self._separator, ",\n"
        return (separator + ",\n".join(elements)).encode()


def _yaml_list(columns: Columns) -> bytes:
    return "".join(f"- {each}\n" for each in json_objects(columns)).encode()


def _table_rows(columns: Columns) -> bytes:
    partition = str(columns.partition)
    rows = zip(columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True)
    return b"".join(
        _row((partition, str(offset), iso_text(timestamp), _cell(key), _cell(value)))
        for offset, timestamp, key, value in rows
    )


def _cell(content: bytes | None) -> str:
    """Content on one line: what does not print is escaped; null is a hyphen, as in other tables."""
    if content is None:
        return "-"
    text = content.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _row(cells: Sequence[str]) -> bytes:
    padded = [cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)]
    return ("  ".join([*padded, cells[-1]]).rstrip() + "\n").encode()
