"""Kafka's metrics of the share coordinator (``share-coordinator-metrics``): writes, loading, pruning.

Rates, averages and maxima are those of the last minute. Metrics of Kafka's threads and buffers are missing: kwire has
none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.base.futures import NowOrLater, then
from kwire.base.samples import Samples
from kwire.cluster.metadata.image import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry

_TYPE: Final = "kafka.server:type=share-coordinator-metrics"


class ShareCoordinatorMetrics:
    """What is measured for them. ``monotonic``: a clock in seconds. ``pruned``: by partition, the offset below which
    records were deleted last."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._writes = 0
        self._rate = Samples(monotonic)
        self._write_ms = Samples(monotonic)
        self._load_ms = Samples(monotonic)
        self.pruned: dict[int, int] = {}

    def add(self, metrics: MetricsRegistry) -> None:
        """Register the metrics; each is computed when it is read."""
        for name, function in (
            ("write-rate", self._rate.rate),
            ("write-total", lambda: self._writes),
            ("write-latency-avg", self._write_ms.average),
            ("write-latency-max", self._write_ms.maximum),
            ("partition-load-time-avg", self._load_ms.average),
            ("partition-load-time-max", self._load_ms.maximum),
        ):
            metrics.gauge(f"{_TYPE},name={name}", function)
        tag = f"topic={SHARE_STATE_TOPIC}"
        metrics.source(
            lambda: [
                (f"{_TYPE},name=last-pruned-offset,{tag},partition={index}", offset)
                for index, offset in self.pruned.items()
            ]
        )

    def wrote(self) -> None:
        """The state of a share partition is written."""
        self._writes += 1
        self._rate.record()

    def time_writes(self, results: Callable[[], NowOrLater[Any]]) -> NowOrLater[Any]:
        """The results of a request that writes states, whose time is measured."""
        begun_s = self._monotonic()

        def finished(found: Any) -> Any:
            self._write_ms.record((self._monotonic() - begun_s) * 1000)
            return found

        return then(results(), finished)

    def loaded(self, begun_s: float) -> None:
        """A partition is loaded, which began at this time of the clock."""
        self._load_ms.record((self._monotonic() - begun_s) * 1000)
