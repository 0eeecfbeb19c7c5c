"""Durations in buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.bench.histogram import Histogram, Summary


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_percentiles_are_within_two_percent(durations: list[float], fraction: float) -> None:
    histogram = Histogram()
    for each in durations:
        histogram.add(each)
    exact = sorted(durations)[max(-int(-len(durations) * fraction // 1), 1) - 1]
    assert exact * 0.98 - 1e-5 <= histogram.percentile(fraction) <= exact * 1.021 + 1e-5


def test_the_summary_has_the_usual_numbers() -> None:
    histogram = Histogram()
    assert histogram.summary() == Summary(0, 0, 0, 0, 0, 0, 0)
    assert list(histogram.lines()) == []
    histogram.add(1.5, 99)
    histogram.add(30)
    summary = histogram.summary()
    assert (summary.min, summary.mean, summary.max, histogram.count) == (1.5, 1.785, 30, 100)
    assert 1.5 <= summary.p99 < 1.54 and summary.p999 == 30


def test_each_span_between_the_first_and_the_last_has_a_bar() -> None:
    histogram = Histogram()
    histogram.add(1.5, 80)
    histogram.add(7, 1)
    histogram.add(20_000, 2)
    lines = [line.split() for line in histogram.lines()]
    assert lines[:3] == [["<", "2", "ms", "80", "#" * 40], ["<", "5", "ms", "0"], ["<", "10", "ms", "1", "#"]]
    assert lines[-1] == [">=", "10000", "ms", "2", "#"]
