"""Rates, means and maxima of the last minute are those of Kafka's `SampledStat`."""

from __future__ import annotations

import pytest

from kwire.base.samples import WINDOW_S, WINDOWS, Samples


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_without_numbers_all_values_are_zero() -> None:
    samples = Samples(FakeClock())
    assert (samples.rate(), samples.average(), samples.maximum()) == (0, 0, 0)


@pytest.mark.parametrize(("after_s", "measured_s"), [(0, 30), (15, 45), (29, 59), (30, 30), (45, 45), (59, 59)])
def test_a_rate_is_measured_in_at_least_one_whole_window(after_s: float, measured_s: float) -> None:
    """As Kafka's `Rate.windowSize`: the time since the oldest window began, and the windows that have not begun."""
    clock = FakeClock()
    samples = Samples(clock)
    for _ in range(6):
        samples.record()
    clock.now_s += after_s
    assert samples.rate() == pytest.approx(6 / measured_s)


def test_numbers_are_forgotten_when_their_window_is_a_minute_old() -> None:
    clock = FakeClock()
    samples = Samples(clock)
    samples.record(900)
    clock.now_s += WINDOW_S
    samples.record(100)
    samples.record(200)
    assert (samples.average(), samples.maximum()) == (400, 900)
    clock.now_s += WINDOWS * WINDOW_S - WINDOW_S
    assert (samples.average(), samples.maximum()) == (150, 200)
    assert samples.rate() == pytest.approx(300 / 30)
    clock.now_s += WINDOW_S
    assert (samples.rate(), samples.average(), samples.maximum()) == (0, 0, 0)


def test_no_more_windows_than_needed_are_kept() -> None:
    clock = FakeClock()
    samples = Samples(clock)
    for number in (8, 4, 2, 1):
        samples.record(number)
        clock.now_s += WINDOW_S - 1
        samples.record(number)
        clock.now_s += 1
    assert samples.maximum() == 2
    assert samples.rate() == pytest.approx(6 / 60)
