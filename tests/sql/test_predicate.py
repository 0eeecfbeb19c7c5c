"""`Predicate`: what it leaves out never matches, and what it keeps is little more than what matches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.spans import Span

OFFSET, PARTITION, TIME = pc.field("offset"), pc.field("partition"), pc.field("timestamp")
ALL = Span(0, 1_000_000)


def instant(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1000, pa.timestamp("us", tz="UTC"))


def member(field: Any, values: list[int], kind: pa.DataType) -> Any:
    """How DuckDB writes IN."""
    found = pc.is_in(field, value_set=pa.array(values, kind))
    return pc.if_else(field.is_valid(), found, pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (None, [ALL]),
        (OFFSET >= 999_990, [Span(999_990, 1_000_000)]),
        ((OFFSET > 10) & (OFFSET <= 20), [Span(10, 21)]),
        (OFFSET == 77, [Span(77, 78)]),
        (OFFSET < 0, []),
        (PARTITION == 4, []),
        ((PARTITION == 3) & (OFFSET < 5), [Span(0, 5)]),
        (member(PARTITION, [1, 2], pa.int32()), []),
        (member(PARTITION, [1, 3], pa.int32()), [ALL]),
        ((OFFSET < 3) | (OFFSET >= 999_999), [Span(0, 3), Span(999_999, 1_000_000)]),
        (member(OFFSET, [5, 500_000], pa.int64()), [Span(5, 6), Span(500_000, 500_001)]),
        ((OFFSET < 3) | (instant(5) < TIME), [ALL]),
        (pc.field("key") == b"k", [ALL]),
        ((pc.field("key") == b"k") & ~(OFFSET < 999_999), [Span(999_999, 1_000_000)]),
    ],
)
def test_spans_are_those_that_can_match(expression: Any, expected: list[Span]) -> None:
    assert Predicate(expression).spans(3, ALL) == expected


@pytest.mark.parametrize(
    ("expression", "earliest", "latest"),
    [
        (None, None, None),
        (OFFSET > 5, None, None),
        (instant(1000) <= TIME, 1000, None),
        (instant(1000) < TIME, 1000, None),
        (instant(2000) > TIME, None, 2000),
        ((instant(-5) <= TIME) & (instant(2000) >= TIME), -5, 2000),
        (instant(7) == TIME, 7, 7),
        ((instant(9) <= TIME) | (PARTITION == 1), 9, None),
        ((instant(9) <= TIME) | (PARTITION == 3), None, None),
        ((instant(9) <= TIME) | (OFFSET == 1), None, None),
    ],
)
def test_times_bound_what_can_match(expression: Any, earliest: int | None, latest: int | None) -> None:
    predicate = Predicate(expression)
    assert (predicate.earliest_ms(3, ALL), predicate.latest_ms(3, ALL)) == (earliest, latest)


def test_a_segment_that_ends_earlier_cannot_match() -> None:
    predicate = Predicate((instant(1000) <= TIME) & (PARTITION == 3))
    assert not predicate.may_match(3, ALL, latest_ms=999)
    assert predicate.may_match(3, ALL, latest_ms=1000)
    assert predicate.may_match(3, ALL, latest_ms=2**63 - 1), "nanoseconds taken for milliseconds"
    assert not predicate.may_match(2, ALL, latest_ms=1000)
    assert predicate.may_match(3, ALL)
    assert not predicate.may_match(3, Span(5, 5))
