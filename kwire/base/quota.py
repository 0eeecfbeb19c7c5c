"""A limit on bytes per second, measured as Kafka's quotas are.

Bytes are counted in windows; the rate is their sum divided by the time since the oldest window began, which is at least
one window (Kafka's `SimpleRate`). A window expires when the length of all windows together has passed since bytes were
last added to it. What lives elsewhere: which requests or partitions are delayed while a quota is exceeded; the quotas
of clients, which measure with the same windows (`kwire.quotas`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
"""Bytes per second without a limit."""


class _Window:
    """What was added in one window. ``started_ms`` and ``last_ms``: when it began and was last added to."""

    __slots__ = ("last_ms", "started_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.total: float = 0
        self.started_ms = self.last_ms = now_ms


class WindowedSum:
    """Kafka's `WindowedSum`: the sum of what was recorded lately, in ``count`` windows of ``window_ms`` and the current
    one. Windows are reused, so memory is bounded."""

    __slots__ = ("_newest", "_windows", "count", "window_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        self.count = count
        self.window_ms = window_ms
        self._windows: list[_Window] = []
        self._newest = 0

    def record(self, number: float, now_ms: int) -> None:
        """Add a number."""
        if not self._windows:
            self._windows.append(_Window(now_ms))
        window = self._windows[self._newest]
        if now_ms - window.started_ms >= self.window_ms:
            window = self._begin(now_ms)
        window.total += number
        window.last_ms = now_ms

    def _begin(self, now_ms: int) -> _Window:
        self._newest = (self._newest + 1) % (self.count + 1)
        if self._newest == len(self._windows):
            self._windows.append(_Window(now_ms))
        else:
            self._windows[self._newest].reset(now_ms)
        return self._windows[self._newest]

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The sum, and the milliseconds since the oldest window began."""
        if not self._windows:  # a read before the first record begins the first window, as in Kafka
            self._windows.append(_Window(now_ms))
        total: float = 0
        oldest_ms = now_ms
        expiry_ms = self.count * self.window_ms
        for window in self._windows:
            if now_ms - window.last_ms >= expiry_ms:
                window.reset(now_ms)
            total += window.total
            if window.started_ms < oldest_ms:  # noqa: PLR1730 (min() costs twice as much)
                oldest_ms = window.started_ms
        return total, now_ms - oldest_ms


class Quota:
    """Measures a rate of bytes and compares it with a limit.

    ``rate``: the limit in bytes per second, which may change at any time. ``monotonic``: a clock in seconds. The
    measured rate covers ``windows`` windows of ``window_s`` seconds each, and the current one.
    """

    def __init__(self, monotonic: Callable[[], float], windows: int = 11, window_s: int = 1) -> None:
        self.rate: float = UNLIMITED
        self._monotonic = monotonic
        self._sum = WindowedSum(windows, window_s * 1000)

    def record(self, size: int) -> None:
        """Count bytes that were copied now."""
        self._sum.record(size, round(self._monotonic() * 1000))

    def bytes_per_second(self) -> float:
        """The current rate."""
        size, elapsed_ms = self._measured()
        return size * 1000 / elapsed_ms

    def is_exceeded(self) -> bool:
        """Whether the current rate is above the limit."""
        return self.rate < UNLIMITED and self.bytes_per_second() > self.rate

    def pause_s(self, longest_s: float) -> float:
        """The seconds until an exceeded quota is no longer exceeded if nothing more is copied, max ``longest_s``."""
        size, elapsed_ms = self._measured()
        if size * 1000 >= self.rate * (elapsed_ms + longest_s * 1000):
            return longest_s
        return max(size / self.rate - elapsed_ms / 1000, 0.0)

    def _measured(self) -> tuple[float, int]:
        """Bytes, and the milliseconds in which they were copied."""
        size, elapsed_ms = self._sum.measure(round(self._monotonic() * 1000))
        return size, max(elapsed_ms, self._sum.window_ms)


class MutationQuota:
    """What one request pays with for creating and deleting partitions. This one is for clients without a limit; the
    other one is in `kwire.quotas.mutations`."""

    __slots__ = ()

    def spend(self, permits: int) -> None:
        """Pay for the creation or deletion of partitions. THROTTLING_QUOTA_EXCEEDED if nothing is left."""

    def restart(self) -> None:
        """Give back what was paid: the request is decided once more, by a newer image of the cluster."""

    def keep(self) -> None:
        """What was paid so far is not given back any more: that part of the request is decided."""

    def throttle_time_ms(self) -> int:
        """How long the client is to be throttled from now on."""
        return 0


UNBOUNDED: Final = MutationQuota()


__all__ = ["UNBOUNDED", "UNLIMITED", "MutationQuota", "Quota", "WindowedSum"]
