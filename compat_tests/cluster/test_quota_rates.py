"""Replication quotas are measured as Kafka's: random histories, the same rates."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from harness.kafka_jars import compile_java, java_command, kafka_classpath
from kwire.base.quota import Quota

SOURCE = Path(__file__).with_name("RateOracle.java")
HISTORIES = 200
STEPS = 60
STEPS_MS = (0, 1, 17, 300, 999, 1000, 1001, 2500, 11_000, 30_000)


class History:
    """What happened to one quota, and the rates that were measured."""

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
    classes = compile_java([SOURCE])
    command = java_command("-cp", f"{classes}:{kafka_classpath()}", "RateOracle")
    asked = "\n".join(line for history in histories for line in history.lines)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    rates = [rate for history in histories for rate in history.rates]
    assert len(rates) > 1000
    assert [float(line) for line in done.stdout.splitlines()] == pytest.approx(rates)
