"""What a consumer was given, and whether rows that were read from files are the same. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """A record: its offset and key, and a digest of its timestamp, key, value and headers."""

    offset: int
    key: bytes | None
    digest: bytes


def make_row(offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> Row:
    """A record as it is compared."""
    content = repr((timestamp_ms, key, value, headers)).encode()
    return Row(offset, key, hashlib.blake2b(content, digest_size=8).digest())


class Ledger:
    """All that a consumer was given of a partition, and up to where. It is written by one thread and read by others."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.newest: dict[bytes | None, int] = {}
        """The last offset of each key."""
        self.reached = 0
        """The consumer has been given everything before this offset."""
        self.missed: list[tuple[int, int]] = []
        """Offsets that were deleted before the consumer came to them, from the first to before the second."""

    def add(self, row: Row) -> None:
        """Note a record. Offsets rise."""
        self.rows[row.offset] = row
        self.newest[row.key] = row.offset
        self.reached = max(self.reached, row.offset + 1)

    def between(self, start: int, end: int) -> list[Row]:
        """The records from one offset to before another."""
        rows = self.rows
        return [rows[offset] for offset in range(start, end) if offset in rows]

    def has_missed(self, offset: int) -> bool:
        """Whether nothing is known about an offset."""
        return any(first <= offset < end for first, end in self.missed)


def rising(rows: Sequence[Row], start: int, end: int) -> str | None:
    """What is wrong with the order of rows, or with their bounds."""
    last = start - 1
    for row in rows:
        if not last < row.offset < end:
            return f"offset {row.offset} comes after {last}, and {start} to {end} were wanted"
        last = row.offset
    return None


def same(ledger: Ledger, rows: Sequence[Row], start: int, end: int) -> str | None:
    """What differs from what a consumer was given from ``start`` to before ``end``; None if nothing does."""
    known = [row for row in rows if not ledger.has_missed(row.offset)]
    return _difference(ledger.between(start, end), known)


def same_as_one(lives: Iterable[Sequence[Row]], rows: Sequence[Row], end: int) -> str | None:
    """What differs if the topic was made several times: the rows must all be of one of its lives, up to ``end``."""
    differences = [_difference([row for row in life if row.offset < end], rows) for life in lives]
    return None if None in differences else f"of no life of the topic: {'; '.join(map(str, differences))}"


def same_but_compacted(ledger: Ledger, rows: Sequence[Row], start: int, end: int) -> str | None:
    """What differs if the log is compacted: a record may be missing only if a later one has its key."""
    found = {row.offset for row in rows}
    for row in rows:
        given = ledger.rows.get(row.offset)
        if given is None and row.offset < ledger.newest.get(row.key, -1):
            continue  # it was cleaned away before the consumer came
        if given != row:
            return f"offset {row.offset} is not what a consumer was given"
    for row in ledger.between(start, end):
        if row.offset not in found and ledger.newest[row.key] == row.offset:
            return f"offset {row.offset}, the last of its key, is missing"
    return None


def _difference(given: Sequence[Row], rows: Sequence[Row]) -> str | None:
    if list(given) == list(rows):
        return None
    for theirs, mine in zip(given, rows, strict=False):
        if theirs != mine:
            what = "has other bytes" if theirs.offset == mine.offset else f"comes where {theirs.offset} was given"
            return f"offset {mine.offset} {what}"
    if len(given) > len(rows):
        return f"offset {given[len(rows)].offset} is missing"
    return f"offset {rows[len(given)].offset} was given to no consumer"
