"""The quota of controller mutations (KIP-599): partitions created and deleted, paid for with tokens.

A request of a version that knows THROTTLING_QUOTA_EXCEEDED is strict: what comes when there are no tokens left is
refused. An older request is permissive: everything is done, and the client is throttled afterwards. In both, the last
thing that is granted may make the number of tokens negative. What lives elsewhere: whose tokens they are (`managers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.quota import MutationQuota
from kwire.quotas.rates import refill_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.quotas.sensors import MutationSensor


class BoundedMutationQuota(MutationQuota):
    """The quota of a request of a client with a limit. ``now_ms``: a monotonic clock."""

    __slots__ = ("_is_strict", "_kept_throttle_ms", "_now_ms", "_recorded_ms", "_sensor", "_spent", "_throttle_ms")

    def __init__(self, sensor: MutationSensor, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._spent = 0
        self._throttle_ms = 0
        self._kept_throttle_ms = 0
        self._recorded_ms = 0

    def spend(self, permits: int) -> None:
        """Pay. Only a strict request is refused."""
        now_ms = self._now_ms()
        sensor = self._sensor
        if self._is_strict:
            left = sensor.bucket.tokens(now_ms)
            if left < 0:
                self._throttle(left, now_ms)
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            sensor.spend(permits, now_ms)
            self._spent += permits
            return
        left = sensor.spend(permits, now_ms)
        self._spent += permits
        if left < 0:
            self._throttle(left, now_ms)

    def _throttle(self, left: float, now_ms: int) -> None:
        self._throttle_ms = max(self._throttle_ms, refill_time_ms(left, self._sensor.bucket.bound))
        self._recorded_ms = now_ms

    def restart(self) -> None:
        """Give back what was paid."""
        if self._spent:
            self._sensor.spend(-self._spent, self._now_ms())
        self._spent, self._throttle_ms = 0, self._kept_throttle_ms

    def keep(self) -> None:
        """From now on `restart` gives back only what is paid later."""
        self._spent, self._kept_throttle_ms = 0, self._throttle_ms

    def throttle_time_ms(self) -> int:
        """The longest throttle time so far, without what has passed of it."""
        if not self._throttle_ms:
            return 0
        return max(0, self._throttle_ms - (self._now_ms() - self._recorded_ms))
