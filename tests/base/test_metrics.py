"""What the metrics registry counts and how it shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.base.metrics import Counter, Histogram, MetricsRegistry, RequestMetrics, metric_name


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@given(st.lists(st.integers(0, 1 << 70), min_size=1), st.sampled_from([0.5, 0.95, 0.99, 0.999]))
def test_a_percentile_is_never_too_low_and_at_most_a_quarter_too_high(numbers: list[int], fraction: float) -> None:
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    exact = sorted(numbers)[max(0, -(-len(numbers) * int(fraction * 1000) // 1000) - 1)]
    if exact < 1 << 64:
        assert exact <= histogram.percentile(fraction) <= max(exact * 1.25, exact + 1)
    assert histogram.count == len(numbers)
    assert histogram.max == max(numbers)


def test_meters_have_kafkas_attributes_and_rates() -> None:
    clock = FakeClock()
    registry = MetricsRegistry(clock)
    meter = registry.meter("a:type=b,name=c")
    registry.snapshot()
    meter.count += 600
    clock.now_s += 60
    shown = registry.snapshot()["a:type=b,name=c"]
    assert shown["Count"] == 600
    assert shown["MeanRate"] == shown["OneMinuteRate"] == 10.0
    clock.now_s += 60
    assert 0 < registry.snapshot()["a:type=b,name=c"]["OneMinuteRate"] < 10


def test_the_brokers_sums_keep_what_a_deleted_topic_counted() -> None:
    registry = MetricsRegistry(FakeClock())
    registry.topic("a").bytes_in += 5
    registry.topic("b").bytes_in += 7
    registry.remove_topic("a")
    shown = registry.snapshot()
    assert shown["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"]["Count"] == 12
    assert shown["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=b"]["Count"] == 7
    assert "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=a" not in shown


def test_request_phases_add_up_and_every_phase_counts_every_request() -> None:
    registry = MetricsRegistry(FakeClock())
    requests = registry.requests("Produce")
    requests.record(13, 1000)
    requests.record(13, 1000, remote_us=2000)
    requests.throttled(20)
    requests.examined = 1
    requests.errors |= {6: 1, 30_000: 1}
    shown = registry.snapshot()
    prefix = "kafka.network:type=RequestMetrics,name="
    assert shown[prefix + "RequestsPerSec,request=Produce,version=13"]["Count"] == 2
    assert shown[prefix + "ErrorsPerSec,request=Produce,error=NONE"]["Count"] == 1  # of the one that was not examined
    assert shown[prefix + "ErrorsPerSec,request=Produce,error=NOT_LEADER_OR_FOLLOWER"]["Count"] == 1
    assert shown[prefix + "ErrorsPerSec,request=Produce,error=UNKNOWN_SERVER_ERROR"]["Count"] == 1
    assert shown[prefix + "ThrottleTimeMs,request=Produce"]["Max"] == 20
    assert shown[prefix + "TotalTimeMs,request=Produce"]["Mean"] == 2.0
    assert shown[prefix + "LocalTimeMs,request=Produce"]["Mean"] == 1.0
    for phase in (
        "TotalTimeMs",
        "LocalTimeMs",
        "RemoteTimeMs",
        "RequestQueueTimeMs",
        "ResponseSendTimeMs",
        "ThrottleTimeMs",
    ):
        assert shown[prefix + phase + ",request=Produce"]["Count"] == 2


def test_requests_that_were_answered_at_once_are_counted_together() -> None:
    one_by_one, together = RequestMetrics(), RequestMetrics()
    times = [0, 7, 8, 1000, 8191, 8192, 2**20, 2**70]
    for number, us in enumerate(times):
        one_by_one.record(7 + number % 2, us)
        together.times_of(7 + number % 2).append(us)
    registry = MetricsRegistry(FakeClock())
    registry.requests("Produce").times_of(9).append(1000)
    shown = registry.snapshot()
    assert shown["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"]["Count"] == 1
    for (name, mine), theirs in zip(together.times().items(), one_by_one.times().values(), strict=True):
        assert (mine.buckets, mine.total, mine.max) == (theirs.buckets, theirs.total, theirs.max), name
    assert together.versions == one_by_one.versions
    together.times_of(7).append(5)
    assert together.errors_by_name() == {"NONE": len(times) + 1}
    together.times_of(7).append(5)
    assert together.merged(RequestMetrics()).versions[7] == one_by_one.versions[7] + 2
    together.times_of(7).append(5)
    assert RequestMetrics().merged(together).versions[7] == one_by_one.versions[7] + 3
    assert together.times()["TotalTimeMs"].max == max(times)  # of all, not of the last


def test_a_gauge_that_fails_does_not_spoil_the_dump() -> None:
    registry = MetricsRegistry(FakeClock())
    registry.gauge("bad", lambda: 1 // 0)
    registry.gauge("good", lambda: 3)
    counter = registry.counter("count")
    counter.value += 2
    shown = registry.snapshot()
    assert "bad" not in shown
    assert (shown["good"], shown["count"]) == (3, 2)


def test_one_name_is_one_metric_of_one_kind() -> None:
    registry = MetricsRegistry(FakeClock())
    assert registry.counter("x") is registry.counter("x")
    assert isinstance(registry.counter("x"), Counter)
    with pytest.raises(TypeError, match="x is a Counter"):
        registry.histogram("x")
    registry.remove("x")
    registry.histogram("x")


def test_metric_names_are_kafkas() -> None:
    assert (
        metric_name("kafka.server", "ReplicaManager", "LeaderCount")
        == "kafka.server:type=ReplicaManager,name=LeaderCount"
    )


def test_a_walk_gives_way_to_the_reader_and_not_to_snapshots() -> None:
    registry = MetricsRegistry(lambda: 0.0)
    registry.walk(lambda: iter([None, ("kafka.server:type=T,name=N", 3), None]))
    assert list(registry.items()).count(None) == 2
    assert registry.snapshot()["kafka.server:type=T,name=N"] == 3


def test_without_rates_meters_of_topics_have_their_counts_only() -> None:
    registry = MetricsRegistry(lambda: 0.0)
    registry.topic("t").messages_in += 4
    name = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t"
    assert dict(filter(None, registry.items(rates=False)))[name] == {"Count": 4}
    assert registry.snapshot()[name] == {"Count": 4, "MeanRate": 0.0}
