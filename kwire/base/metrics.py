"""Counters, gauges, meters and histograms under Kafka's metric names.

Code that measures holds the metric object. Counts are attributes that it adds to (``topic.bytes_in += size``), without
a look-up, a lock or a call; a histogram takes one call of `record`. Names, rates and percentiles are computed when the
metrics are read (`MetricsRegistry.snapshot`). A registry belongs to one broker and one event loop.

Names are Kafka's MBean names, such as ``kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Fetch``. Times are
taken in microseconds and shown in milliseconds, as in Kafka.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

Number = int | float

Source = Callable[[], Iterable[tuple[str, dict[str, float]]]]
"""A function that gives names of metrics with their attributes."""

_SUB_BITS: Final = 2  # each power of two has 2**_SUB_BITS buckets: a percentile is at most 25 % too high
_RATE_WINDOWS_S: Final = {"OneMinuteRate": 60.0, "FiveMinuteRate": 300.0, "FifteenMinuteRate": 900.0}
_PERCENTILES: Final = {"50thPercentile": 0.5, "95thPercentile": 0.95, "99thPercentile": 0.99, "999thPercentile": 0.999}


class Counter:
    """A number that only grows: ``counter.value += 1``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def snapshot(self, now_s: float) -> Number:
        """The number itself."""
        return self.value


class Gauge:
    """A number that a function computes when it is read."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], Number]) -> None:
        self.function = function

    def snapshot(self, now_s: float) -> Number:
        """The number as it is now."""
        return self.function()


class Rates:
    """Exponentially weighted rates of a growing count, updated only when they are read: a meter that is not read costs
    one addition per event."""

    __slots__ = ("_count", "_rates", "_start_s", "_updated_s")

    def __init__(self, now_s: float) -> None:
        self._start_s = self._updated_s = now_s
        self._count = 0
        self._rates: dict[str, float] | None = None

    def snapshot(self, count: int, now_s: float) -> dict[str, Number]:
        """Kafka's attributes of a meter for this count. The rate between two readings is assumed to be constant."""
        elapsed = now_s - self._updated_s
        if elapsed > 0:
            rate = (count - self._count) / elapsed
            self._rates = {
                name: self._weighted(name, rate, elapsed, window) for name, window in _RATE_WINDOWS_S.items()
            }
            self._count, self._updated_s = count, now_s
        age = now_s - self._start_s
        return {"Count": count, "MeanRate": count / age if age > 0 else 0.0, **(self._rates or {})}

    def _weighted(self, name: str, rate: float, elapsed: float, window: float) -> float:
        if self._rates is None:
            return rate
        weight = 1.0 - math.exp(-elapsed / window)
        return self._rates[name] + weight * (rate - self._rates[name])


class Meter:
    """A count of events with rates: ``meter.count += n``."""

    __slots__ = ("_rates", "count")

    def __init__(self, now_s: float) -> None:
        self.count = 0
        self._rates = Rates(now_s)

    def snapshot(self, now_s: float) -> dict[str, Number]:
        """Count and rates per second."""
        return self._rates.snapshot(self.count, now_s)


class Histogram:
    """Non-negative integers in 256 logarithmic buckets: four for each power of two, so that a percentile is at most a
    quarter too high (numbers of 2**64 and above share the last bucket). Recording takes about 0.25 microseconds."""

    __slots__ = ("buckets", "max", "total", "unit")

    def __init__(self, unit: int = 1) -> None:
        """``unit``: how many recorded units make a shown one (1000 for microseconds shown as milliseconds)."""
        self.buckets = [0] * 256
        self.total = 0
        self.max = 0
        self.unit = unit

    def record(self, value: int) -> None:
        """Add one number, which must not be negative."""
        if value < 8:
            self.buckets[value] += 1
        else:
            shift = value.bit_length() - 3
            index = (shift << 2) + (value >> shift)
            self.buckets[index if index < 256 else 255] += 1
        self.total += value
        if value > self.max:  # noqa: PLR1730 (max() costs twice as much)
            self.max = value

    @property
    def count(self) -> int:
        """How many numbers were recorded."""
        return sum(self.buckets)

    def merged(self, other: Histogram) -> Histogram:
        """A new histogram with the numbers of both."""
        result = Histogram(self.unit)
        result.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        result.total = self.total + other.total
        result.max = max(self.max, other.max)
        return result

    def with_zeros(self, count: int) -> Histogram:
        """A new histogram with zeros added until it has this many numbers."""
        result = self.merged(Histogram())
        result.buckets[0] += max(count - self.count, 0)
        return result

    def percentile(self, fraction: float) -> int:
        """The upper end of the bucket that this fraction of all recorded numbers does not exceed."""
        remaining = math.ceil(self.count * fraction)
        for index, count in enumerate(self.buckets):
            remaining -= count
            if remaining <= 0:
                return min(_bucket_end(index), self.max)
        return self.max

    def snapshot(self, now_s: float) -> dict[str, Number]:
        """Kafka's attributes of a histogram."""
        unit, count = self.unit, self.count
        lowest = next((index for index, number in enumerate(self.buckets) if number), 0)
        values: dict[str, Number] = {
            "Count": count,
            "Min": (_bucket_end(lowest - 1) + 1 if lowest else 0) / unit,
            "Max": self.max / unit,
            "Mean": self.total / count / unit if count else 0.0,
        }
        for name, fraction in _PERCENTILES.items():
            values[name] = self.percentile(fraction) / unit
        return values


def _bucket_end(index: int) -> int:
    if index < 8:
        return index
    shift = (index >> _SUB_BITS) - 1
    return (((index & 3) + 4 + 1) << shift) - 1


@dataclass(slots=True, eq=False, repr=False)
class TopicMetrics:
    """Counts of one topic on this broker, for ``kafka.server:type=BrokerTopicMetrics``."""

    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    failed_fetch_requests: int = 0
    failed_produce_requests: int = 0
    invalid_magic_records: int = 0
    invalid_message_crc_records: int = 0
    invalid_offset_or_sequence_records: int = 0
    messages_in: int = 0
    no_key_compacted_topic_records: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    total_fetch_requests: int = 0
    total_produce_requests: int = 0


_TOPIC_METER_NAMES: Final = {
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "failed_fetch_requests": "FailedFetchRequestsPerSec",
    "failed_produce_requests": "FailedProduceRequestsPerSec",
    "invalid_magic_records": "InvalidMagicNumberRecordsPerSec",
    "invalid_message_crc_records": "InvalidMessageCrcRecordsPerSec",
    "invalid_offset_or_sequence_records": "InvalidOffsetOrSequenceRecordsPerSec",
    "messages_in": "MessagesInPerSec",
    "no_key_compacted_topic_records": "NoKeyCompactedTopicRecordsPerSec",
    "replication_bytes_in": "ReplicationBytesInPerSec",
    "replication_bytes_out": "ReplicationBytesOutPerSec",
    "total_fetch_requests": "TotalFetchRequestsPerSec",
    "total_produce_requests": "TotalProduceRequestsPerSec",
}


class RequestMetrics:
    """The phases of one API's requests, for ``kafka.network:type=RequestMetrics``. Call `record` once per request, when
    its response is sent."""

    __slots__ = (
        "_local",
        "_queue",
        "_remote",
        "_send",
        "_total",
        "_undivided",
        "errors",
        "request_bytes",
        "response_bytes",
        "versions",
    )

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self.errors: dict[str, int] = {}
        self.request_bytes = 0
        self.response_bytes = 0
        self._undivided = Histogram(1000)  # requests without waiting: their total is their local time
        self._local = Histogram(1000)
        self._total = Histogram(1000)
        self._queue = Histogram(1000)
        self._remote = Histogram(1000)
        self._send = Histogram(1000)

    def record(self, version: int, local_us: int, remote_us: int = 0, queue_us: int = 0, send_us: int = 0) -> None:
        """One request, in microseconds: handled, waiting in purgatory, waiting to be started, waiting to be sent."""
        self.versions[version] = self.versions.get(version, 0) + 1
        if not (remote_us or queue_us or send_us):
            self._undivided.record(local_us)
            return
        self._total.record(local_us + remote_us + queue_us + send_us)
        self._local.record(local_us)
        if remote_us:
            self._remote.record(remote_us)
        if queue_us:
            self._queue.record(queue_us)
        if send_us:
            self._send.record(send_us)

    def record_error(self, error_name: str) -> None:
        """Count a response by its error's name (``NONE`` for success, as in Kafka)."""
        self.errors[error_name] = self.errors.get(error_name, 0) + 1

    def times(self) -> dict[str, Histogram]:
        """Kafka's names of the phases and their times."""
        total = self._total.merged(self._undivided)
        count = total.count
        return {
            "TotalTimeMs": total,
            "LocalTimeMs": self._local.merged(self._undivided),
            "RemoteTimeMs": self._remote.with_zeros(count),
            "RequestQueueTimeMs": self._queue.with_zeros(count),
            "ResponseSendTimeMs": self._send.with_zeros(count),
        }


M = TypeVar("M", Counter, Meter, Histogram)


def metric_name(domain: str, kind: str, name: str, **tags: object) -> str:
    """Kafka's full name of a metric, tags in the order given."""
    return f"{domain}:type={kind},name={name}" + "".join(f",{tag}={value}" for tag, value in tags.items())


class MetricsRegistry:
    """All metrics of one broker.

    ``monotonic`` is the clock of the rates, in seconds (``doors.clock.monotonic``).
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._metrics: dict[str, Counter | Gauge | Meter | Histogram] = {}
        self._topics: dict[str, TopicMetrics] = {}
        self._requests: dict[str, RequestMetrics] = {}
        self._removed_topics = TopicMetrics()  # the counts of deleted topics stay in the broker's sums
        self._rates: dict[str, Rates] = {}
        self._sources: list[Source] = []
        self._start_s = monotonic()

    def counter(self, name: str) -> Counter:
        """The counter of this name, created by the first call."""
        return self._get(name, Counter, Counter)

    def meter(self, name: str) -> Meter:
        """The meter of this name, created by the first call."""
        return self._get(name, Meter, lambda: Meter(self._monotonic()))

    def histogram(self, name: str, unit: int = 1) -> Histogram:
        """The histogram of this name, created by the first call."""
        return self._get(name, Histogram, lambda: Histogram(unit))

    def gauge(self, name: str, function: Callable[[], Number]) -> None:
        """Register a function that computes the number of this name; a later one replaces it."""
        self._metrics[name] = Gauge(function)

    def source(self, source: Source) -> None:
        """Register a function that gives the names and attributes of metrics which come and go."""
        self._sources.append(source)

    def remove(self, name: str) -> None:
        """Remove a metric, if there is one."""
        self._metrics.pop(name, None)
        self._rates.pop(name, None)

    def topic(self, topic: str) -> TopicMetrics:
        """The counts of one topic. On a hot path, keep the object instead of calling this."""
        metrics = self._topics.get(topic)
        if metrics is None:
            metrics = self._topics[topic] = TopicMetrics()
        return metrics

    def remove_topic(self, topic: str) -> None:
        """Remove a deleted topic; its counts stay in the broker's sums."""
        metrics = self._topics.pop(topic, None)
        if metrics is None:
            return
        _add(self._removed_topics, metrics)
        for name in [name for name in self._rates if name.endswith(f",topic={topic}")]:
            del self._rates[name]

    def requests(self, api: str) -> RequestMetrics:
        """The request metrics of one API, by Kafka's name of it (``Produce``, ``Fetch``, ...)."""
        metrics = self._requests.get(api)
        if metrics is None:
            metrics = self._requests[api] = RequestMetrics()
        return metrics

    def snapshot(self) -> dict[str, Any]:
        """All metrics by name: a number, or a mapping of Kafka's attributes. A gauge that fails is left out."""
        now_s = self._monotonic()
        result: dict[str, Any] = {}
        for name, metric in self._metrics.items():
            try:
                result[name] = metric.snapshot(now_s)
            except Exception:  # one failing gauge must not prevent the others from being read
                continue
        for source in self._sources:
            result.update(source())
        self._snapshot_topics(result, now_s)
        for api, metrics in self._requests.items():
            self._snapshot_requests(result, api, metrics, now_s)
        return dict(sorted(result.items()))

    def _get(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = make()
        if not isinstance(metric, kind):
            raise TypeError(f"{name} is a {type(metric).__name__}, not a {kind.__name__}")
        return metric

    def _meter_of(self, name: str, count: int, now_s: float) -> dict[str, Number]:
        rates = self._rates.get(name)
        if rates is None:
            rates = self._rates[name] = Rates(self._start_s)
        return rates.snapshot(count, now_s)

    def _snapshot_topics(self, result: dict[str, Any], now_s: float) -> None:
        everything = TopicMetrics()
        _add(everything, self._removed_topics)
        for topic, metrics in self._topics.items():
            _add(everything, metrics)
            self._snapshot_topic(result, metrics, now_s, {"topic": topic})
        self._snapshot_topic(result, everything, now_s, {})

    def _snapshot_topic(
        self, result: dict[str, Any], metrics: TopicMetrics, now_s: float, tags: dict[str, str]
    ) -> None:
        for attribute, kafka_name in _TOPIC_METER_NAMES.items():
            name = metric_name("kafka.server", "BrokerTopicMetrics", kafka_name, **tags)
            result[name] = self._meter_of(name, getattr(metrics, attribute), now_s)

    def _snapshot_requests(self, result: dict[str, Any], api: str, metrics: RequestMetrics, now_s: float) -> None:
        def name(metric: str, **tags: object) -> str:
            return metric_name("kafka.network", "RequestMetrics", metric, request=api, **tags)

        for version, count in sorted(metrics.versions.items()):
            key = name("RequestsPerSec", version=version)
            result[key] = self._meter_of(key, count, now_s)
        for error, count in sorted(metrics.errors.items()):
            key = name("ErrorsPerSec", error=error)
            result[key] = self._meter_of(key, count, now_s)
        for time_name, histogram in metrics.times().items():
            result[name(time_name)] = histogram.snapshot(now_s)
        result[name("RequestBytes")] = metrics.request_bytes
        result[name("ResponseBytes")] = metrics.response_bytes


def _add(total: TopicMetrics, part: TopicMetrics) -> None:
    for attribute in _TOPIC_METER_NAMES:
        setattr(total, attribute, getattr(total, attribute) + getattr(part, attribute))
