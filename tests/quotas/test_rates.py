"""Rates and token buckets. That they are Kafka's in every combination: `campaigns.quotas.rates`."""

from __future__ import annotations

import pytest

from kwire.quotas.rates import THROTTLE_MAX_MS, Rate, TokenBucket, java_round, refill_time_ms, throttle_time_ms


def test_a_rate_is_never_measured_in_less_than_all_whole_windows() -> None:
    rate = Rate(11, 1000)
    rate.record(20_000, 5_000)
    assert rate.measure(5_000) == (2000.0, 10_000)
    assert rate.measure(5_400) == (20_000 / 10.4, 10_400)


def test_windows_expire_when_nothing_was_added_for_their_whole_time() -> None:
    rate = Rate(3, 1000)
    rate.record(100, 0)
    rate.record(100, 999)
    assert rate.per_second(3_998) == 200 / 3.998
    assert rate.per_second(3_999) == 0.0


def test_what_is_given_back_does_not_count() -> None:
    rate = Rate(11, 1000)
    rate.record(500, 0)
    rate.record(-500, 0)
    assert rate.per_second(0) == 0.0


def test_the_throttle_time_brings_the_rate_down_to_the_limit() -> None:
    assert throttle_time_ms(2000.0, 1000.0, 10_000) == 10_000
    assert throttle_time_ms(1000.1, 1000.0, 10_000) == 1
    assert throttle_time_ms(5.0, 0.0, 10_000) == THROTTLE_MAX_MS
    assert throttle_time_ms(1e18, 1.0, 10_000) == THROTTLE_MAX_MS


@pytest.mark.parametrize(("number", "rounded"), [(0.5, 1), (1.4999, 1), (2.5, 3), (-0.5, 0), (-1.5, -1)])
def test_halves_are_rounded_up_as_in_java(number: float, rounded: int) -> None:
    assert java_round(number) == rounded


def test_a_new_bucket_is_full_and_a_burst_may_make_it_negative() -> None:
    bucket = TokenBucket(11, 1000, 2.0)
    assert bucket.tokens(1_000) == 22.0
    assert bucket.spend(30, 1_000) == -8.0
    assert bucket.tokens(3_000) == -4.0
    assert bucket.tokens(100_000) == 22.0
    assert refill_time_ms(-4.0, 2.0) == 2_000


def test_a_lower_limit_takes_tokens_away() -> None:
    bucket = TokenBucket(11, 1000, 2.0)
    assert bucket.tokens(0) == 22.0
    bucket.bound = 1.0
    assert bucket.tokens(0) == 11.0
