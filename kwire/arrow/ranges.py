"""Ranges of offsets. Pure."""

from __future__ import annotations

from typing import NamedTuple

Partition = tuple[str, int]
"""A topic's name and a partition's number."""
Positions = dict[Partition, int]
"""An offset for each partition."""


class Range(NamedTuple):
    """Offsets of a partition, from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start
