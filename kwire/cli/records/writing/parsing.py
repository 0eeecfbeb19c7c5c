"""What ``kwire produce`` makes of the records it reads: columns of keys, values, headers and timestamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kwire.cli.records.json_lines import parse_line
from kwire.cli.records.writing.encoding import Rows
from kwire.codec.records import RecordHeader


class Batch(NamedTuple):
    """Records as columns. ``partitions``: those that JSON Lines name, None if they name none or it does not matter."""

    rows: Rows
    partitions: Sequence[int | None] | None = None


Parser = Callable[[list[bytes]], Batch]


class Additions(NamedTuple):
    """What options give every record. ``empty_is_null``: an empty value becomes null."""

    key: bytes | None = None
    headers: Sequence[RecordHeader] = ()
    empty_is_null: bool = False


def text_parser(separator: bytes | None, additions: Additions) -> Parser:
    """Each record is a value, or a key, the separator and a value; one without the separator has no key."""

    def parse(records: list[bytes]) -> Batch:
        keys: Sequence[bytes | None] | None = None
        values: Sequence[bytes | None] = records
        if separator is not None:
            keys, values = _split(records, separator)
        if additions.key is not None:
            keys = [additions.key] * len(records) if keys is None else [each or additions.key for each in keys]
        if additions.empty_is_null:
            values = [each or None for each in values]
        headers = [additions.headers] * len(records) if additions.headers else None
        return Batch(Rows(values, keys, headers))

    return parse


def _split(records: list[bytes], separator: bytes) -> tuple[Sequence[bytes | None], Sequence[bytes]]:
    pairs = [each.split(separator, 1) for each in records]
    keys = [each[0] if len(each) == 2 else None for each in pairs]
    return keys, [each[-1] for each in pairs]


def json_parser(additions: Additions, *, keep_partitions: bool) -> Parser:
    """Each record is a line of JSON Lines; empty lines are none. ValueError names the line."""
    line_number = 0

    def parse(records: list[bytes]) -> Batch:
        nonlocal line_number
        parsed = []
        for line in records:
            line_number += 1
            if line.strip():
                try:
                    parsed.append(parse_line(line))
                except ValueError as error:
                    raise ValueError(f"line {line_number} {error}") from None
        empty = None if additions.empty_is_null else b""
        rows = Rows(
            [each.value or (None if each.value is None else empty) for each in parsed],
            [additions.key if each.key is None else each.key for each in parsed],
            [[*each.headers, *additions.headers] for each in parsed],
            [each.timestamp for each in parsed],
        )
        return Batch(rows, [each.partition for each in parsed] if keep_partitions else None)

    return parse
