"""Filters of a query that need not be applied to rows, because they say which offsets to read. Pure.

PySpark passes them from 4.1 on. They are known by the names of their classes, which PySpark 4.0 does not have.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from kwire.arrow.ranges import Partition, Range

T = TypeVar("T")

FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
"""The setting that has PySpark pass filters of queries to sources, from 4.1 on."""
_TYPES: Final = {"topic": str, "partition": int, "offset": int, "timestamp": datetime}
_EQUAL: Final = ("EqualTo", "EqualNullSafe")
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys(_EQUAL, operator.eq),
    "In": lambda value, those: value in those,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}


@dataclass
class Chosen:
    """What the filters of a query leave: partitions, of each the offsets from ``first`` to before ``end`` (None: all),
    and those from the first record on that is not older than ``since_ms`` (None: all)."""

    conditions: list[tuple[str, str, Any]] = field(default_factory=list)
    first: int = 0
    end: int | None = None
    since_ms: int | None = None

    def take(self, filters: Iterable[T]) -> list[T]:
        """Take in filters; those that Spark still has to apply are returned."""
        return [each for each in filters if not self._takes(each)]

    def admits(self, partition: Partition) -> bool:
        """Whether rows of a partition are wanted."""
        values = {"topic": partition[0], "partition": partition[1]}
        return all(_COMPARISONS[kind](values[column], value) for column, kind, value in self.conditions)

    def of(self, ranges: Iterable[Range]) -> list[Range]:
        """What is wanted of some ranges; all but ``since_ms``."""
        found = []
        for each in ranges:
            end = each.end if self.end is None else min(each.end, self.end)
            start = max(each.start, self.first)
            if start < end and self.admits((each.topic, each.partition)):
                found.append(each._replace(start=start, end=end))
        return found

    def _takes(self, given: Any) -> bool:
        """Whether a filter is done by what is read."""
        kind, column = type(given).__name__, ".".join(getattr(given, "attribute", ()))
        if kind == "IsNotNull":
            return column in _TYPES
        value = getattr(given, "value", None)
        values: list[Any] = list(value) if kind == "In" and isinstance(value, list | tuple) else [value]
        if kind not in _COMPARISONS or column not in _TYPES or not values or not _are(values, _TYPES[column]):
            return False
        if column in ("topic", "partition"):
            self.conditions.append((column, kind, value))
            return True
        return self._takes_offset(kind, values) if column == "offset" else self._takes_time(kind, values)

    def _takes_offset(self, kind: str, values: list[int]) -> bool:
        if kind in (*_EQUAL, "In", "GreaterThanOrEqual", "GreaterThan"):
            self.first = max(self.first, min(values) + (kind == "GreaterThan"))
        if kind in (*_EQUAL, "In", "LessThanOrEqual", "LessThan"):
            end = max(values) + (kind != "LessThan")
            self.end = end if self.end is None else min(self.end, end)
        return kind != "In" or max(values) - min(values) == len(set(values)) - 1

    def _takes_time(self, kind: str, values: list[datetime]) -> bool:
        """A lower limit is good for finding the first offset. Later records may be older, so Spark looks, too; and an
        upper limit says nothing about offsets."""
        if kind in (*_EQUAL, "In", "GreaterThanOrEqual", "GreaterThan") and min(values).tzinfo is not None:
            since_ms = max(0, int(min(values).timestamp() * 1000) - 1)
            self.since_ms = since_ms if self.since_ms is None else max(self.since_ms, since_ms)
        return False


def _are(values: Iterable[Any], kind: type) -> bool:
    return all(isinstance(each, kind) and not isinstance(each, bool) for each in values)
