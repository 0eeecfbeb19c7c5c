"""Replication quotas measure the same rates as Kafka's classes, for random histories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from compat_tests.java_programs import answers
from kwire.base.quota import Quota

SOURCE = Path(__file__).with_name("RateOracle.java")
HISTORIES = 200
STEPS = 60
STEPS_MS = (0, 1, 17, 300, 999, 1000, 1001, 2500, 11_000, 30_000)


class History:
    """Random events of one quota, and the rates that kwire measures."""

    def __init__(self, chance: random.Random) -> None:
        windows, window_s = chance.choice([(11, 1), (1, 1), (3, 2), (2, 10)])
        self.lines = [f"new {windows} {window_s}"]
        self.rates: list[float] = []
        self.now_ms = chance.randrange(1_000_000)
        quota = Quota(lambda: self.now_ms / 1000, windows, window_s)
        for _ in range(STEPS):
            self.now_ms += chance.choice((*STEPS_MS, chance.randrange(30_000)))
            if chance.random() < 0.6:
                size = chance.randrange(100_000)
                quota.record(size)
                self.lines.append(f"record {self.now_ms} {size}")
            else:
                self.rates.append(quota.bytes_per_second())
                self.lines.append(f"rate {self.now_ms}")


@pytest.mark.java
def test_rates_are_kafkas() -> None:
    chance = random.Random(11)
    histories = [History(chance) for _ in range(HISTORIES)]
    found = answers(SOURCE, [line for history in histories for line in history.lines])
    rates = [rate for history in histories for rate in history.rates]
    assert len(rates) > 1000
    assert [float(line) for line in found] == pytest.approx(rates)
