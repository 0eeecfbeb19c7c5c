"""`Histogram`: durations in buckets whose width grows with them, so that memory does not grow with their number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

_STEPS: Final = 50
"""Buckets for a factor of e: each is 2 % wider than the one before."""
_EDGES_MS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_BAR: Final = 40


class Summary(NamedTuple):
    """Durations in milliseconds; percentiles are within 2 %."""

    min: float
    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float


class Histogram:
    """Durations in milliseconds."""

    def __init__(self) -> None:
        self.count = 0
        self._sum_ms = 0.0
        self._min_ms = math.inf
        self._max_ms = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, duration_ms: float, count: int = 1) -> None:
        """Count a duration, which several records may have."""
        self.count += count
        self._sum_ms += duration_ms * count
        self._min_ms = min(self._min_ms, duration_ms)
        self._max_ms = max(self._max_ms, duration_ms)
        bucket = math.ceil(math.log(max(duration_ms, 1e-6)) * _STEPS)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def percentile(self, fraction: float) -> float:
        """The duration that so many of the records do not exceed; 0 without any."""
        rank = math.ceil(self.count * fraction)
        for bucket, count in sorted(self._buckets.items()):
            rank -= count
            if rank <= 0:
                return min(max(math.exp(bucket / _STEPS), self._min_ms), self._max_ms)
        return 0.0

    def summary(self) -> Summary:
        """The usual numbers, in microseconds' precision."""
        if not self.count:
            return Summary(*[0.0] * len(Summary._fields))
        percentiles = [self.percentile(fraction) for fraction in (0.5, 0.95, 0.99, 0.999)]
        values = (self._min_ms, self._sum_ms / self.count, *percentiles, self._max_ms)
        return Summary(*(round(value, 3) for value in values))

    def lines(self) -> Iterator[str]:
        """A bar for each span of durations, from the first to the last that occurs."""
        if not self.count:
            return
        spans = [0] * (len(_EDGES_MS) + 1)
        for bucket, count in self._buckets.items():
            middle_ms = math.exp((bucket - 0.5) / _STEPS)
            spans[sum(edge <= middle_ms for edge in _EDGES_MS)] += count
        used = [index for index, count in enumerate(spans) if count]
        for index in range(used[0], used[-1] + 1):
            span = f"< {_EDGES_MS[index]:g} ms" if index < len(_EDGES_MS) else f">= {_EDGES_MS[-1]:g} ms"
            bar = "#" * math.ceil(spans[index] / max(spans) * _BAR)
            yield f"{span:>11}  {spans[index]:>10}  {bar}".rstrip()
