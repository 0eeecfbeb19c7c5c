"""State batches: ranges of offsets with one delivery state, and how later ones are combined with earlier ones.

The result equals that of Kafka's `PersisterStateBatchCombiner`, which `campaigns.share.batches` compares, including
neighbours that could be one batch and are left as two.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Offsets from ``first_offset`` to ``last_offset`` with their delivery count and state (0 available,
    2 acknowledged, 4 archived; 1 acquired is never stored). Batches compare by these fields in this order."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def delivery(self) -> tuple[int, int]:
        """Count and state. Of two batches with an offset in common, the greater one holds for it: deliveries are
        counted up, and no state follows a final one."""
        return self.delivery_count, self.delivery_state

    def between(self, first_offset: int, last_offset: int) -> StateBatch:
        """The same delivery for other offsets."""
        return StateBatch(first_offset, last_offset, self.delivery_count, self.delivery_state)


def combine(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Batches without an offset in common, in order. ``start_offset``: what lies below is left out; -1 for nothing."""
    kept = list(batches) if start_offset == -1 else list(_from(batches, start_offset))
    if len(kept) < 2:
        return kept
    heapify(kept)
    combined: list[StateBatch] = []
    while kept:
        lower = heappop(kept)
        if not kept or not _touch(lower, kept[0]):
            combined.append(lower)
            continue
        for piece in _merged(lower, heappop(kept)):
            heappush(kept, piece)
    return combined


def _from(batches: Iterable[StateBatch], start_offset: int) -> Iterable[StateBatch]:
    for each in batches:
        if each.last_offset >= start_offset:
            yield each if each.first_offset >= start_offset else each.between(start_offset, each.last_offset)


def _touch(lower: StateBatch, upper: StateBatch) -> bool:
    """Whether two batches have an offset in common, or are neighbours with the same delivery."""
    if upper.first_offset <= lower.last_offset:
        return True
    return upper.first_offset == lower.last_offset + 1 and upper.delivery == lower.delivery


def _merged(lower: StateBatch, upper: StateBatch) -> Iterable[StateBatch]:
    """Two batches that touch, in their order, as batches without an offset in common."""
    if lower.delivery == upper.delivery:
        yield lower.between(lower.first_offset, max(lower.last_offset, upper.last_offset))
    elif lower.delivery > upper.delivery:
        yield lower
        if upper.last_offset > lower.last_offset:
            yield upper.between(lower.last_offset + 1, upper.last_offset)
    else:
        if lower.first_offset < upper.first_offset:
            yield lower.between(lower.first_offset, upper.first_offset - 1)
        yield upper
        if upper.last_offset < lower.last_offset:
            yield lower.between(upper.last_offset + 1, lower.last_offset)
