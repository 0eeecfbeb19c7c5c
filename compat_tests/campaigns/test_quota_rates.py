"""A short run of `campaigns/quotas/rates.py`: kwire measures rates, throttle times and tokens as Kafka's classes do."""

from __future__ import annotations

import pytest

from campaigns.quotas import rates
from campaigns.quotas.rates import run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_kwire_measures_as_kafka() -> None:
    counts, differences = run(2000, seed=7)
    assert differences == []
    assert counts["steps"] > 50_000


def test_the_campaign_notices_a_wrong_throttle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "throttle_time_ms", lambda rate, bound, window_ms: round(rate / bound * window_ms))
    assert run(20, seed=7)[1]
