"""The batches in flight, sorted by their first offset.

New batches are nearly always the last ones, and the first ones leave: both are cheap. Looking for an offset is a
binary search.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kwire.share.in_flight import InFlightBatch


class InFlightBatches:
    """A sorted map from first offsets to batches that do not overlap."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        """The batch with the lowest offsets; there must be one."""
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        """The batch with the highest offsets; there must be one."""
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch; one with the same first offset is replaced."""
        first = batch.first_offset
        if not self._firsts or first > self._firsts[-1]:
            self._firsts.append(first)
            self._batches.append(batch)
            return
        index = bisect_left(self._firsts, first)
        replaced = index + (self._firsts[index] == first)
        self._firsts[index:replaced] = [first]
        self._batches[index:replaced] = [batch]

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before an offset."""
        index = bisect_right(self._firsts, offset) - 1
        return None if index < 0 else self._batches[index]

    def after(self, offset: int) -> InFlightBatch | None:
        """The first batch that begins after an offset."""
        index = bisect_right(self._firsts, offset)
        return None if index == len(self._firsts) else self._batches[index]

    def between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that begin in a range of offsets, both ends included."""
        return self._batches[bisect_left(self._firsts, first_offset) : bisect_right(self._firsts, last_offset)]

    def remove_until(self, offset: int) -> None:
        """Remove the batches that end at or before an offset. They are the first ones."""
        index = bisect_right(self._firsts, offset)
        if index and self._batches[index - 1].last_offset > offset:
            index -= 1
        del self._firsts[:index], self._batches[:index]
