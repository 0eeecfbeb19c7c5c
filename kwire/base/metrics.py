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
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kwire.base.errors import ErrorCode

Number = int | float

Source = Callable[[], Iterable[tuple[str, Number | dict[str, Number]]]]
"""A function that gives names of metrics with their numbers or attributes."""

Walk = Callable[[], Iterable[tuple[str, Number | dict[str, Number]] | None]]
"""The same for a long computation: it gives None now and then, where the reader may let others work. What it walks over
may change meanwhile."""

_ERROR_NAMES: Final = {int(code): code.name for code in ErrorCode}
_SUB_BITS: Final = 2  # each power of two has 2**_SUB_BITS buckets: a percentile is at most 25 % too high
_RATE_WINDOWS_S: Final = {"OneMinuteRate": 60.0, "FiveMinuteRate": 300.0, "FifteenMinuteRate": 900.0}
_PERCENTILES: Final = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "98thPercentile": 0.98,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}


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
        self._count: Number = 0
        self._rates: dict[str, float] | None = None

    def snapshot(self, count: Number, now_s: float) -> dict[str, Number]:
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


def _bucket_of(value: int) -> int:
    """The bucket of a histogram in which a number is counted."""
    if value < 8:
        return value
    shift = value.bit_length() - 3
    return min((shift << 2) + (value >> shift), 255)


_BUCKETS_OF: Final = bytes(_bucket_of(value) for value in range(1 << 13))
"""The buckets of the smaller numbers, among which are the microseconds of most requests."""
_IN_TABLE: Final = len(_BUCKETS_OF)


class Histogram:
    """Non-negative integers in 256 logarithmic buckets: four for each power of two, so that a percentile is at most a
    quarter too high (numbers of 2**64 and above share the last bucket). Recording takes about 0.2 microseconds."""

    __slots__ = ("buckets", "max", "total", "unit")

    def __init__(self, unit: int = 1) -> None:
        """``unit``: how many recorded units make a shown one (1000 for microseconds shown as milliseconds)."""
        self.buckets = [0] * 256
        self.total = 0
        self.max = 0
        self.unit = unit

    def record(self, value: int) -> None:
        """Add one number, which must not be negative."""
        self.buckets[_BUCKETS_OF[value] if value < _IN_TABLE else _bucket_of(value)] += 1
        self.total += value
        if value > self.max:  # noqa: PLR1730 (max() costs twice as much)
            self.max = value

    def record_all(self, values: list[int]) -> None:
        """Add several numbers, at least one."""
        buckets = self.buckets
        for value in values:
            buckets[_BUCKETS_OF[value] if value < _IN_TABLE else _bucket_of(value)] += 1
        self.total += sum(values)
        self.max = max(self.max, *values)

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
    failed_share_acknowledgement_requests: int = 0
    failed_share_fetch_requests: int = 0
    total_share_acknowledgement_requests: int = 0
    total_share_fetch_requests: int = 0


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
    "failed_share_acknowledgement_requests": "FailedShareAcknowledgementRequestsPerSec",
    "failed_share_fetch_requests": "FailedShareFetchRequestsPerSec",
    "total_share_acknowledgement_requests": "TotalShareAcknowledgementRequestsPerSec",
    "total_share_fetch_requests": "TotalShareFetchRequestsPerSec",
}
_OF_SHARE_GROUPS: Final = frozenset(name for name in _TOPIC_METER_NAMES if "_share_" in name)
"""Shown of a topic only if there are any."""


FETCH_CONSUMER, FETCH_FOLLOWER = "FetchConsumer", "FetchFollower"
"""Kafka's names of Fetch requests by who sends them. What is shown as ``Fetch`` is the sum of both."""


TIMES_MAX: Final = 256
"""So many requests that were answered at once are counted together."""


class RequestMetrics:
    """The phases of one API's requests, for ``kafka.network:type=RequestMetrics``. Call `record` once per request, when
    its response is sent; the most frequent requests are added to `times_of`.

    ``errors`` are the errors in responses by code. Where they are counted, ``examined`` grows too; the other requests
    had one result each, without an error (Produce's fast path, which counts nothing for that)."""

    __slots__ = (
        "_local",
        "_queue",
        "_remote",
        "_send",
        "_throttle",
        "_times",
        "_total",
        "_undivided",
        "_versions",
        "errors",
        "examined",
        "request_bytes",
        "response_bytes",
    )

    def __init__(self) -> None:
        self._versions: dict[int, int] = {}
        self.errors = {0: 0}
        self.examined = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self._undivided = Histogram(1000)  # requests without waiting: their total is their local time
        self._local = Histogram(1000)
        self._total = Histogram(1000)
        self._queue = Histogram(1000)
        self._remote = Histogram(1000)
        self._send = Histogram(1000)
        self._throttle = Histogram()
        self._times: dict[int, list[int]] = {}

    @property
    def versions(self) -> dict[int, int]:
        """How many requests there were of each version."""
        self.count()
        return self._versions

    def times_of(self, version: int) -> list[int]:
        """Where to add the microseconds of a request of a version that did not wait, instead of calling `record`. Who
        finds that the list has `TIMES_MAX` of them calls `count`."""
        return self._times.setdefault(version, [])

    def count(self) -> None:
        """Count the requests that were added to `times_of`."""
        for version, times in self._times.items():
            if times:
                self._versions[version] = self._versions.get(version, 0) + len(times)
                self._undivided.record_all(times)
                times.clear()

    def record(self, version: int, local_us: int, remote_us: int = 0, queue_us: int = 0, send_us: int = 0) -> None:
        """One request, in microseconds: handled, waiting in purgatory, waiting to be started, waiting to be sent."""
        self._versions[version] = self._versions.get(version, 0) + 1
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

    def throttled(self, throttle_time_ms: int) -> None:
        """The client of a request is throttled."""
        self._throttle.record(throttle_time_ms)

    def errors_by_name(self) -> dict[str, int]:
        """The counts of errors by Kafka's names (``NONE`` for success). As in Kafka, an unknown code is an
        UNKNOWN_SERVER_ERROR."""
        counts = Counts({"NONE": sum(self.versions.values()) - self.examined})
        for code, count in self.errors.items():
            counts[_ERROR_NAMES.get(code, "UNKNOWN_SERVER_ERROR")] += count
        return {name: count for name, count in counts.items() if count}

    def merged(self, other: RequestMetrics) -> RequestMetrics:
        """New metrics of the requests of both."""
        result = RequestMetrics()
        self.count()
        other.count()
        for slot in set(self.__slots__) - {"_times"}:
            setattr(result, slot, _sum(getattr(self, slot), getattr(other, slot)))
        return result

    def times(self) -> dict[str, Histogram]:
        """Kafka's names of the phases and their times."""
        self.count()
        total = self._total.merged(self._undivided)
        count = total.count
        return {
            "TotalTimeMs": total,
            "LocalTimeMs": self._local.merged(self._undivided),
            "RemoteTimeMs": self._remote.with_zeros(count),
            "RequestQueueTimeMs": self._queue.with_zeros(count),
            "ResponseSendTimeMs": self._send.with_zeros(count),
            "ThrottleTimeMs": self._throttle.with_zeros(count),
        }


def _sum(mine: Any, theirs: Any) -> Any:
    """The sum of two numbers, two mappings to numbers, or two histograms."""
    if isinstance(mine, Histogram):
        return mine.merged(theirs)
    if isinstance(mine, dict):
        return {key: mine.get(key, 0) + theirs.get(key, 0) for key in {**mine, **theirs}}
    return mine + theirs


M = TypeVar("M", Counter, Meter, Histogram)
_MeterOf = Callable[[str, int, float], dict[str, Number]]


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
        self._walks: list[Walk] = []
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

    def walk(self, walk: Walk) -> None:
        """Register a function that walks over many objects to compute metrics: the walk may give way to others."""
        self._walks.append(walk)

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
        return dict(sorted(filter(None, self.items())))

    def items(self, rates: bool = True) -> Iterator[tuple[str, Any] | None]:
        """The same one after the other, so that a reader can let others work meanwhile; None where a long computation
        gives way. Metrics may come and go. Without ``rates`` the meters of topics and requests have their counts only.
        """
        now_s = self._monotonic()
        for name, metric in list(self._metrics.items()):
            try:
                yield name, metric.snapshot(now_s)
            except Exception:  # one failing gauge must not prevent the others from being read
                continue
        for source in self._sources:
            yield from list(source())
        for walk in self._walks:
            yield from walk()
        meter_of = self._meter_of if rates else _count_of
        yield from self._topic_items(meter_of, now_s)
        for api, metrics in self._by_request().items():
            yield from self._request_items(api, metrics, meter_of, now_s)

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

    def _topic_items(self, meter_of: _MeterOf, now_s: float) -> Iterator[tuple[str, Any]]:
        everything = TopicMetrics()
        _add(everything, self._removed_topics)
        for topic, metrics in list(self._topics.items()):
            _add(everything, metrics)
            yield from _items_of_topic(metrics, meter_of, now_s, {"topic": topic})
        yield from _items_of_topic(everything, meter_of, now_s, {})

    def _by_request(self) -> dict[str, RequestMetrics]:
        """The metrics by Kafka's name of the request; the sum of Fetch requests among them."""
        found = dict(self._requests)
        for name in (FETCH_CONSUMER, FETCH_FOLLOWER):
            if name in self._requests:
                found["Fetch"] = self._requests[name].merged(found.get("Fetch", RequestMetrics()))
        return found

    def _request_items(
        self, api: str, metrics: RequestMetrics, meter_of: _MeterOf, now_s: float
    ) -> Iterator[tuple[str, Any]]:
        def name(metric: str, **tags: object) -> str:
            return metric_name("kafka.network", "RequestMetrics", metric, request=api, **tags)

        for version, count in sorted(metrics.versions.items()):
            key = name("RequestsPerSec", version=version)
            yield key, meter_of(key, count, now_s)
        if api not in (FETCH_CONSUMER, FETCH_FOLLOWER):  # as in Kafka, so that a sum counts errors once
            for error, count in sorted(metrics.errors_by_name().items()):
                key = name("ErrorsPerSec", error=error)
                yield key, meter_of(key, count, now_s)
        for time_name, histogram in metrics.times().items():
            yield name(time_name), histogram.snapshot(now_s)
        yield name("RequestBytes"), metrics.request_bytes
        yield name("ResponseBytes"), metrics.response_bytes


def _items_of_topic(
    metrics: TopicMetrics, meter_of: _MeterOf, now_s: float, tags: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    for attribute, kafka_name in _TOPIC_METER_NAMES.items():
        count = getattr(metrics, attribute)
        if count or not tags or attribute not in _OF_SHARE_GROUPS:
            name = metric_name("kafka.server", "BrokerTopicMetrics", kafka_name, **tags)
            yield name, meter_of(name, count, now_s)


def _count_of(_name: str, count: int, _now_s: float) -> dict[str, Number]:
    return {"Count": count}


def _add(total: TopicMetrics, part: TopicMetrics) -> None:
    for attribute in _TOPIC_METER_NAMES:
        setattr(total, attribute, getattr(total, attribute) + getattr(part, attribute))
