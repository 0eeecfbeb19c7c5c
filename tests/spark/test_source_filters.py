"""Filters of queries as ranges of offsets: what Spark does not look at again must be exact, and nothing may be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.arrow.ranges import Range
from kwire.spark.source.filters import Chosen


@dataclass(frozen=True)
class Binary:
    """As PySpark's filters from 4.1 on."""

    attribute: tuple[str, ...]
    value: Any


class EqualTo(Binary): ...


class EqualNullSafe(Binary): ...


class In(Binary): ...


class GreaterThan(Binary): ...


class GreaterThanOrEqual(Binary): ...


class LessThan(Binary): ...


class LessThanOrEqual(Binary): ...


class StringStartsWith(Binary): ...


@dataclass(frozen=True)
class IsNotNull:
    attribute: tuple[str, ...]


@dataclass(frozen=True)
class Not:
    child: Any


MEANINGS: dict[type, Callable[[Any, Any], bool]] = {
    EqualTo: lambda one, other: one == other,
    EqualNullSafe: lambda one, other: one == other,
    In: lambda one, other: one in other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
}
RANGES = [Range(topic, number, start, 9) for topic in ("a", "b") for number, start in enumerate((0, 3, 8))]
NUMBERS = st.integers(-1, 10)
COLUMNS = {"topic": (2, st.sampled_from(["", "a", "b", "c"])), "partition": (0, NUMBERS), "offset": (1, NUMBERS)}


@st.composite
def filters(draw: st.DrawFn) -> Any:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    kind = draw(st.sampled_from(list(MEANINGS)))
    value = COLUMNS[column][1]
    return kind((column,), draw(st.lists(value, max_size=3) if kind is In else value))


def passes(row: tuple[str, int, int], each: Any) -> bool:
    column = ("topic", "partition", "offset").index(each.attribute[0])
    return bool(MEANINGS[type(each)](row[column], each.value))


@given(st.lists(filters(), max_size=4))
def test_what_is_read_and_passes_what_is_left_is_what_passes_all(those: list[Any]) -> None:
    chosen = Chosen()
    left = chosen.take(those)
    rows = [(each.topic, each.partition, offset) for each in RANGES for offset in range(each.start, each.end)]
    read = [(each.topic, each.partition, at) for each in chosen.of(RANGES) for at in range(each.start, each.end)]
    assert [row for row in read if all(passes(row, each) for each in left)] == [
        row for row in rows if all(passes(row, each) for each in those)
    ]


def test_filters_on_where_rows_lie_are_not_left_to_spark() -> None:
    done = [EqualTo(("topic",), "a"), LessThan(("partition",), 2), GreaterThan(("offset",), 4), In(("offset",), [6, 5])]
    chosen = Chosen()
    assert chosen.take([*done, *(IsNotNull((column,)) for column in ("topic", "partition", "offset"))]) == []
    assert chosen.of(RANGES) == [Range("a", 0, 5, 7), Range("a", 1, 5, 7)]


@pytest.mark.parametrize(
    "left",
    [
        In(("offset",), [2, 7]),
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        Not(EqualTo(("partition",), 1)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("topic",), None),
        EqualTo(("partition",), "1"),
        EqualTo(("partition",), True),
        EqualTo(("headers", "key"), "x"),
        In(("offset",), []),
        LessThan(("timestamp",), datetime(2026, 1, 1, tzinfo=UTC)),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 (of a column without a time zone)
    ],
)
def test_what_cannot_be_kept_exactly_is_left_to_spark(left: Any) -> None:
    chosen = Chosen()
    assert chosen.take([left]) == [left]
    assert chosen.since_ms is None


def test_the_latest_of_lower_limits_of_time_says_where_reading_begins() -> None:
    """Spark looks, too: later records may have older timestamps."""
    moments = [datetime(2026, 1, 1, second=second, tzinfo=UTC) for second in (5, 9, 7)]
    those = [
        kind(("timestamp",), each)
        for kind, each in zip((GreaterThan, EqualTo, GreaterThanOrEqual), moments, strict=True)
    ]
    chosen = Chosen()
    assert chosen.take(those) == those
    assert chosen.since_ms == int(moments[1].timestamp() * 1000) - 1
