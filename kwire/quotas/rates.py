"""Measuring with Kafka's classes `Rate`, `TokenBucket` and `QuotaUtils`: pure arithmetic, the time is passed in.

All times are milliseconds of one monotonic clock. `campaigns.quotas.rates` compares every function here with Java's
classes. What lives elsewhere: whose usage is measured together (`limits`), what follows from a violation (`managers`).
"""

from __future__ import annotations

import math
from typing import Final

from kwire.base.quota import WindowedSum

THROTTLE_MAX_MS: Final = 2**31 - 1
"""The longest throttle time that a response can hold. (In Kafka, a longer one overflows.)"""


class Rate:
    """Kafka's `Rate`: the sum of the recorded numbers per second, over ``windows`` windows of ``window_ms``. A rate is
    not measured in less than all windows but the current one, so that a burst after a pause is allowed."""

    __slots__ = ("_least_ms", "_sum", "_window_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._sum = WindowedSum(windows, window_ms)
        self._window_ms = window_ms
        self._least_ms = (windows - 1) * window_ms

    def record(self, number: float, now_ms: int) -> None:
        """Add a number."""
        self._sum.record(number, now_ms)

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The rate per second, and the milliseconds that it was measured in."""
        total, elapsed_ms = self._sum.measure(now_ms)
        if elapsed_ms < self._least_ms:
            elapsed_ms = self._least_ms + elapsed_ms % self._window_ms  # whole windows count as passed
        elapsed_ms = elapsed_ms or 1
        return total / (elapsed_ms / 1000), elapsed_ms

    def per_second(self, now_ms: int) -> float:
        """The rate per second."""
        return self.measure(now_ms)[0]


class TokenBucket:
    """Kafka's `TokenBucket` (KIP-599): tokens are added at ``bound`` per second, at most what ``windows`` windows hold.
    The number may become negative: then there is nothing to spend until it is refilled. A new bucket is full."""

    __slots__ = ("_refilled_ms", "_span_s", "_tokens", "bound")

    def __init__(self, windows: int, window_ms: int, bound: float) -> None:
        self._span_s = windows * (window_ms / 1000)
        self.bound = bound
        self._tokens = math.inf
        self._refilled_ms = 0

    def tokens(self, now_ms: int) -> float:
        """The tokens that can be spent now."""
        burst = self._span_s * self.bound
        elapsed_s = (now_ms - self._refilled_ms) / 1000
        self._tokens = min(burst, self._tokens + self.bound * elapsed_s)
        self._refilled_ms = now_ms
        return self._tokens

    def spend(self, tokens: float, now_ms: int) -> float:
        """Take tokens, whether there are any or not (a negative number gives them back). Returns what is left."""
        self._tokens = min(self._span_s * self.bound, self.tokens(now_ms) - tokens)
        return self._tokens


def java_round(number: float) -> int:
    """Java's `Math.round`, bounded by `THROTTLE_MAX_MS`."""
    if number >= THROTTLE_MAX_MS:
        return THROTTLE_MAX_MS
    floor = math.floor(number)
    return floor + 1 if number - floor >= 0.5 else floor


def throttle_time_ms(rate: float, bound: float, window_ms: int) -> int:
    """How long nothing may be recorded until a rate above its bound is down to it (Kafka's
    `QuotaUtils.throttleTime`)."""
    if not bound:
        return THROTTLE_MAX_MS
    return java_round((rate - bound) / bound * window_ms)


def refill_time_ms(tokens: float, bound: float) -> int:
    """How long it takes until a negative number of tokens is zero."""
    return java_round(-tokens / bound * 1000) if bound else THROTTLE_MAX_MS
