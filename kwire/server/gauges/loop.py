"""`LoopLoad`: how busy the event loop is. It does the work of both Kafka's network threads and its request handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kwire.base.metrics import Rates

if TYPE_CHECKING:
    from kwire.base.doors import Clock
    from kwire.base.metrics import MetricsRegistry

INTERVAL_S: Final = 5.0
HANDLERS: Final = "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"
BROKER_HANDLERS: Final = "kafka.server:type=KafkaRequestHandlerPool,name=BrokerRequestHandlerAvgIdlePercent"
NETWORK: Final = "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent"


class LoopLoad:
    """Measures how late timers are, and for which part of the time the loop's thread uses no processor.

    As in Kafka, the network threads' ratio is that of the last interval, and the request handlers' ratio is a meter
    of idle time: its rates are ratios.
    """

    def __init__(self, metrics: MetricsRegistry, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._histogram = metrics.histogram("kwire.server:type=EventLoop,name=LagMs", unit=1000)
        self._started_s = self._read_s = clock.monotonic()
        self._started_busy_s = self._read_busy_s = clock.thread_time()
        self._idle_ratio = 1.0
        self._rates = Rates(self._started_s)
        self._timer = self._loop.call_later(INTERVAL_S, self._measure)
        metrics.gauge(NETWORK, lambda: self._idle_ratio)
        metrics.source(self._handlers)

    def _measure(self) -> None:
        late_s = self._loop.time() - self._timer.when()  # uvloop's timers may be a little early
        self._histogram.record(max(0, int(late_s * 1_000_000)))
        now_s, busy_s = self._clock.monotonic(), self._clock.thread_time()
        if now_s > self._read_s:
            busy_ratio = (busy_s - self._read_busy_s) / (now_s - self._read_s)
            self._idle_ratio = min(max(1.0 - busy_ratio, 0.0), 1.0)
        self._read_s, self._read_busy_s = now_s, busy_s
        self._timer = self._loop.call_later(INTERVAL_S, self._measure)

    def _handlers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        now_s = self._clock.monotonic()
        idle_s = max(now_s - self._started_s - (self._clock.thread_time() - self._started_busy_s), 0.0)
        values = self._rates.snapshot(idle_s, now_s)
        for name in (HANDLERS, BROKER_HANDLERS):
            yield name, {**values, "Count": int(idle_s * 1_000_000_000)}  # nanoseconds, as in Kafka

    def close(self) -> None:
        """Stop measuring."""
        self._timer.cancel()
