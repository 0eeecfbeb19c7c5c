"""What is measured of those who share a limit, and the metrics of it under Kafka's names.

What lives elsewhere: the arithmetic (`rates`), which limit applies (`limits`), who is charged when (`managers`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.samples import Samples
from kwire.quotas.rates import THROTTLE_MAX_MS, Rate, TokenBucket, throttle_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable

Attributes = dict[str, float]
"""The attributes of a metric by Kafka's name."""


class Windows(NamedTuple):
    """How a rate is measured: ``number`` windows of ``seconds`` (`quota.window.num`, `quota.window.size.seconds`)."""

    number: int = 11
    seconds: int = 1

    @property
    def ms(self) -> int:
        """Milliseconds of a window."""
        return self.seconds * 1000


class Sensor:
    """The usage of those who share a limit. ``used_ms``: when it was last looked up."""

    __slots__ = ("_clock", "_throttle_times", "used_ms")

    def __init__(self, clock: Callable[[], float], now_ms: int) -> None:
        self._clock = clock
        self._throttle_times: Samples | None = None  # most sensors never throttle
        self.used_ms = now_ms

    def throttled(self, throttle_ms: int) -> None:
        """A client was throttled for this limit."""
        if self._throttle_times is None:
            self._throttle_times = Samples(self._clock)
        self._throttle_times.record(throttle_ms)

    def throttle_time(self) -> float:
        """The mean throttle time of the last minute; 0 if nobody was throttled."""
        return 0.0 if self._throttle_times is None else self._throttle_times.average()

    def bind(self, bound: float) -> None:
        """Set the limit; what was measured stays."""
        raise NotImplementedError

    def attributes(self, now_ms: int) -> Attributes:
        """What the metrics show."""
        raise NotImplementedError


class RateSensor(Sensor):
    """A rate with a limit. ``metric``: Kafka's name of the rate; ``longest_ms``: the longest throttle time."""

    __slots__ = ("_longest_ms", "_metric", "bound", "rate")

    def __init__(
        self,
        clock: Callable[[], float],
        now_ms: int,
        windows: Windows,
        bound: float,
        *,
        metric: str = "byte-rate",
        longest_ms: int = THROTTLE_MAX_MS,
    ) -> None:
        super().__init__(clock, now_ms)
        self.rate = Rate(windows.number, windows.ms)
        self.bound = bound
        self._metric = metric
        self._longest_ms = longest_ms

    def charge(self, number: float, now_ms: int) -> int:
        """Record usage. Returns the throttle time in milliseconds, 0 if the limit is kept."""
        rate = self.rate
        rate.record(number, now_ms)
        measured, window_ms = rate.measure(now_ms)
        if measured <= self.bound:
            return 0
        throttle_ms = throttle_time_ms(measured, self.bound, window_ms)
        return throttle_ms if throttle_ms < self._longest_ms else self._longest_ms

    def bind(self, bound: float) -> None:
        """Set the limit."""
        self.bound = bound

    def attributes(self, now_ms: int) -> Attributes:
        """The rate and the mean throttle time."""
        return {self._metric: self.rate.per_second(now_ms), "throttle-time": self.throttle_time()}


class MutationSensor(Sensor):
    """Tokens for controller mutations."""

    __slots__ = ("_mutations", "bucket")

    def __init__(self, clock: Callable[[], float], now_ms: int, windows: Windows, bound: float) -> None:
        super().__init__(clock, now_ms)
        self.bucket = TokenBucket(windows.number, windows.ms, bound)
        self._mutations = Samples(clock)

    def spend(self, permits: float, now_ms: int) -> float:
        """Pay; returns what is left."""
        self._mutations.record(permits)
        return self.bucket.spend(permits, now_ms)

    def bind(self, bound: float) -> None:
        """Set the limit."""
        self.bucket.bound = bound

    def attributes(self, now_ms: int) -> Attributes:
        """The tokens, the rate of mutations and the mean throttle time."""
        return {
            "mutation-rate": self._mutations.rate(),
            "tokens": self.bucket.tokens(now_ms),
            "throttle-time": self.throttle_time(),
        }


_PLAIN_VALUE: Final = re.compile(r"[\w\-%. \t]*", re.ASCII)
_QUOTED: Final = {'"': '\\"', "*": "\\*", "?": "\\?", "\\": "\\\\", "\n": "\\n"}


def sanitized(user: str) -> str:
    """A user's name as Kafka shows it in metrics: percent-encoded (`Sanitizer.sanitize`)."""
    from urllib.parse import quote

    return quote(user, safe="").replace("~", "%7E")


def metric_tags(user: str | None, client_id: str | None) -> str:
    """The tags of a metric: ``,user=alice,client-id=app``. A client id with special characters is quoted as in JMX."""
    text = f",user={sanitized(user)}" if user else ""
    if not client_id:
        return text
    if not _PLAIN_VALUE.fullmatch(client_id):
        client_id = '"' + "".join(_QUOTED.get(each, each) for each in client_id) + '"'
    return f"{text},client-id={client_id}"
