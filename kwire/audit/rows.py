"""What an audit found, as it is printed. Times are milliseconds since 1970."""

from __future__ import annotations

from typing import Final, NamedTuple

EQUAL, FAULTS, SAMPLED = "equal", "faults found", "no fault in the sample"
MISSING, DUPLICATE, CHANGED, REORDERED = "missing", "duplicate", "changed", "reordered"
MISPLACED, UNEXPECTED, LATE = "misplaced", "unexpected", "late"
MEANINGS: Final = {
    MISSING: "in the source and not in the copy",
    DUPLICATE: "more often in the copy than in the source",
    CHANGED: "in both, with other content",
    REORDERED: "before a record in the copy that it follows in the source",
    MISPLACED: "in another partition of the copy",
    UNEXPECTED: "in the copy and not in the source",
    LATE: "in the copy after the delay that is allowed",
    "gap": "sequence numbers of a producer that are not there",
    "repeated": "sequence numbers of a producer that are there twice",
    "count": "another number of records than was expected",
}
"""Kinds of faults, and what they mean."""


class WindowRow(NamedTuple):
    """A span of time, by the records' times."""

    start_ms: int
    end_ms: int
    source_records: int
    copy_records: int
    faults: dict[str, int]


class PartitionRow(NamedTuple):
    """A partition, or a file of a table by its number."""

    partition: int
    source_records: int
    copy_records: int
    faults: dict[str, int]


class KeyRow(NamedTuple):
    """A key, or an identity, with faults; ``key`` is one record's, as text."""

    key: str | None
    faults: int


class ContentRow(NamedTuple):
    """A record, or a row of a table (``value``: as JSON): where it is, and the beginning of what it holds. Bytes that
    are no text are in base64, after ``base64:``."""

    partition: int
    offset: int
    timestamp: int | None
    key: str | None
    value: str | None


class ExampleRow(NamedTuple):
    """One fault."""

    kind: str
    source: ContentRow | None
    copy: ContentRow | None


class ProducerRow(NamedTuple):
    """What one producer has written to a partition. ``producer_id`` is -1 for all without idempotence, which have no
    sequences. ``missing`` and ``repeated``: sequence numbers; ``from_start``: whether the first is there."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    batches: int
    records: int
    aborted: int
    first_sequence: int
    last_sequence: int
    from_start: bool
    missing: int
    repeated: int


class AuditRow(NamedTuple):
    """An audit. ``copy`` is None if it was about producers only. ``pending``: records that are not in the copy yet, and
    young enough for that. ``order``: of what the order was checked. ``sample``: the part of the keys that was looked
    at; ``confidence``: what that means, in words. ``window_ms``: the length of a window."""

    source: str
    copy: str | None
    verdict: str
    source_records: int
    copy_records: int
    faults: dict[str, int]
    pending: int
    compared: list[str]
    order: str
    sample: float
    confidence: str | None
    started_ms: int
    seconds: float
    window_ms: int
    windows: list[WindowRow]
    partitions: list[PartitionRow]
    keys: list[KeyRow]
    examples: list[ExampleRow]
    producers: list[ProducerRow]

    @property
    def is_faulty(self) -> bool:
        """Whether there are faults."""
        return self.verdict == FAULTS
