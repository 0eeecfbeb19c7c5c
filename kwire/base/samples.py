"""Numbers of the last minute, with Kafka's `Rate`, `Avg` and `Max` of them (`SampledStat`).

Numbers are collected in windows of `WINDOW_S`, Kafka's defaults of `metrics.sample.window.ms` and
`metrics.num.samples`. A window begins with a number and is kept until nothing has been added to it for `WINDOWS`
times `WINDOW_S`. What lives elsewhere: counts since the start and their meters (`metrics`), limits of rates (`quota`).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_S: Final = 30.0
WINDOWS: Final = 2


class _Window:
    """The numbers of one window, in summary. ``started_s`` and ``last_s``: when it began and was last added to."""

    __slots__ = ("count", "largest", "last_s", "started_s", "total")

    def __init__(self, now_s: float) -> None:
        self.started_s = self.last_s = now_s
        self.count = 0
        self.total = 0.0
        self.largest = -math.inf


class Samples:
    """Numbers that were recorded lately. ``monotonic``: a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._windows: deque[_Window] = deque(maxlen=WINDOWS + 1)

    def record(self, number: float = 1) -> None:
        """Add a number."""
        now_s = self._monotonic()
        if not self._windows or now_s - self._windows[-1].started_s >= WINDOW_S:
            self._windows.append(_Window(now_s))
        window = self._windows[-1]
        window.last_s = now_s
        window.count += 1
        window.total += number
        if number > window.largest:  # noqa: PLR1730 (max() costs twice as much)
            window.largest = number

    def rate(self) -> float:
        """The sum of the numbers, per second."""
        now_s = self._monotonic()
        windows = self._kept(now_s)
        if not windows:
            return 0.0
        elapsed_s = now_s - windows[0].started_s
        missing = max(WINDOWS - 1 - int(elapsed_s / WINDOW_S), 0)  # a rate is not measured in less than a whole window
        return sum(window.total for window in windows) / (elapsed_s + missing * WINDOW_S)

    def average(self) -> float:
        """The mean of the numbers; 0 if there are none (in Kafka NaN, which JSON does not have)."""
        windows = self._kept(self._monotonic())
        count = sum(window.count for window in windows)
        return sum(window.total for window in windows) / count if count else 0.0

    def maximum(self) -> float:
        """The largest number; 0 if there are none."""
        return max((window.largest for window in self._kept(self._monotonic())), default=0.0)

    def _kept(self, now_s: float) -> deque[_Window]:
        while self._windows and now_s - self._windows[0].last_s >= WINDOWS * WINDOW_S:
            self._windows.popleft()
        return self._windows
