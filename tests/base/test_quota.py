"""Bytes per second, measured in windows."""

from __future__ import annotations

import pytest

from kwire.base.quota import Quota


class Timed:
    def __init__(self, rate: float, **windows: int) -> None:
        self.now_s = 100.0
        self.quota = Quota(lambda: self.now_s, **windows)
        self.quota.rate = rate

    def later(self, seconds: float) -> Timed:
        self.now_s += seconds
        return self


def test_the_first_window_counts_as_a_whole_one() -> None:
    timed = Timed(1000)
    timed.quota.record(1000)
    timed.later(0.01).quota.record(0)
    assert timed.quota.bytes_per_second() == 1000
    assert not timed.quota.is_exceeded()
    timed.quota.record(1)
    assert timed.quota.is_exceeded()


def test_time_that_passes_lowers_the_rate() -> None:
    timed = Timed(1000)
    timed.quota.record(4000)
    assert timed.later(3.9).quota.is_exceeded()
    assert not timed.later(0.2).quota.is_exceeded()


def test_the_pause_is_as_long_as_it_takes_but_not_longer_than_asked_for() -> None:
    timed = Timed(1000)
    timed.quota.record(1500)
    assert timed.quota.pause_s(0.1) == 0.1
    pause_s = timed.later(1.0).quota.pause_s(10)
    assert pause_s == pytest.approx(0.5)
    assert not timed.later(pause_s).quota.is_exceeded()


def test_windows_that_are_over_count_no_more() -> None:
    timed = Timed(10, windows=3)
    timed.quota.record(3000)
    for _ in range(3):
        timed.later(1.0).quota.record(0)
    assert timed.quota.bytes_per_second() == 0
    timed.later(60).quota.record(10)
    assert timed.quota.bytes_per_second() == 10


def test_windows_may_be_longer() -> None:
    timed = Timed(1000, window_s=10)
    timed.quota.record(10_000)
    assert timed.quota.bytes_per_second() == 1000


def test_a_rate_of_zero_waits_for_the_windows_to_pass() -> None:
    timed = Timed(0, windows=2)
    assert not timed.quota.is_exceeded()
    timed.quota.record(1)
    assert timed.later(1.9).quota.is_exceeded()
    assert timed.quota.pause_s(7) == 7
    assert not timed.later(0.2).quota.is_exceeded()


def test_without_a_limit_nothing_is_exceeded_and_the_rate_is_told() -> None:
    quota = Quota(lambda: 5.0)
    quota.record(1 << 62)
    assert not quota.is_exceeded()
    assert quota.bytes_per_second() == 1 << 62


def test_the_average_over_a_minute_is_what_was_allowed() -> None:
    timed = Timed(1000)
    sent = 0
    while timed.now_s < 160.0:
        if timed.quota.is_exceeded():
            timed.later(max(timed.quota.pause_s(1.0), 0.001))
        else:
            timed.quota.record(700)
            sent += 700
    assert 0.95 * 60_000 < sent < 1.15 * 60_000


def test_who_looks_first_begins_the_first_window() -> None:
    timed = Timed(1000)
    assert timed.quota.bytes_per_second() == 0
    timed.later(2.0).quota.record(3000)
    assert timed.later(1.0).quota.bytes_per_second() == 1000
