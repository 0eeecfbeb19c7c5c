"""Random usage measured by Kafka's classes and by kwire's: rates, throttle times, tokens. No difference is allowed.

    .venv/bin/python -m campaigns.quotas.rates --cases 100000 --seed 1

A case has random windows and a random limit, and up to 60 steps at random times: bursts, pauses that let windows
expire, negative numbers (what a throttled Fetch gives back). Java's `Rate`, `QuotaUtils`, `TokenBucket`,
`StrictControllerMutationQuota` and `PermissiveControllerMutationQuota` answer through `java/RateOracle.java`. A line
of JSON is printed, then the first differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Final

from campaigns.command_line import FINDINGS_MAX, main_of_cases
from harness.paths import ROOT
from harness.processes.java_oracle import JavaOracle
from kwire.base.errors import KafkaError
from kwire.base.quota import MutationQuota
from kwire.quotas.mutations import BoundedMutationQuota
from kwire.quotas.rates import Rate, throttle_time_ms
from kwire.quotas.sensors import MutationSensor, Windows

SOURCE: Final = ROOT / "campaigns" / "java" / "RateOracle.java"
BATCH: Final = 200
KINDS: Final = ("rate", "rate", "strict", "permissive")
BOUNDS: Final = (0.1, 0.5, 1.0, 1.5, 10.0, 1000.0, 1048576.0, 123456789.5)


class Case:
    """Usage of one limit."""

    def __init__(self, chance: random.Random) -> None:
        self.kind = chance.choice(KINDS)
        self.windows = Windows(chance.choice((1, 2, 3, 11, 20)), chance.choice((1, 1, 2, 10)))
        self.bound = chance.choice(BOUNDS)
        now_ms = chance.randrange(10**9, 10**10)
        self.steps: list[tuple[int, list[float]]] = []
        for _ in range(chance.randrange(1, 61)):
            now_ms += self._pause_ms(chance)
            self.steps.append((now_ms, [self._number(chance) for _ in range(chance.choice((0, 1, 1, 1, 2, 5)))]))

    def _pause_ms(self, chance: random.Random) -> int:
        window_ms = self.windows.ms
        longest = chance.choice((1, 10, window_ms, window_ms, 3 * window_ms, self.windows.number * window_ms * 2))
        return chance.choice((0, window_ms, chance.randrange(longest + 1), chance.randrange(longest + 1)))

    def _number(self, chance: random.Random) -> float:
        if self.kind != "rate":
            return chance.choice((0, 1, 1, 2, 5, 10, 100, 1000))
        usual = self.bound * self.windows.seconds
        number = chance.choice((usual, chance.random() * usual, chance.random() * usual * 20, 1))
        return (
            number if self.bound < 10 or chance.random() < 0.1 else float(round(number)) * chance.choice((1, 1, 1, -1))
        )

    def question(self) -> str:
        """The line that asks Java."""
        return json.dumps([self.kind, self.windows.number, self.windows.seconds, self.bound, self.steps])

    def answer(self) -> list[tuple[str, float, float]]:
        """What kwire measures at each step."""
        return self._rates() if self.kind == "rate" else self._permits()

    def _rates(self) -> list[tuple[str, float, float]]:
        answers: list[tuple[str, float, float]] = []
        rate = Rate(self.windows.number, self.windows.ms)
        for now_ms, numbers in self.steps:
            for number in numbers:
                rate.record(number, now_ms)
            measured, window_ms = rate.measure(now_ms)
            answers.append((repr(measured), window_ms, throttle_time_ms(measured, self.bound, window_ms)))
        return answers

    def _permits(self) -> list[tuple[str, float, float]]:
        sensor = MutationSensor(lambda: 0.0, 0, self.windows, self.bound)
        answers: list[tuple[str, float, float]] = []
        for now_ms, numbers in self.steps:
            quota = BoundedMutationQuota(sensor, lambda now_ms=now_ms: now_ms, is_strict=self.kind == "strict")  # type: ignore[misc]
            granted = "".join(_granted(quota, int(number)) for number in numbers)
            answers.append((granted, quota.throttle_time_ms(), sensor.bucket.tokens(now_ms)))
        return answers

    def agrees(self, java: str) -> bool:
        """Whether Java's answer is the same: numbers with a fraction to 12 digits, since texts of them differ."""
        theirs = java.split(" ")
        ours = self.answer()
        return len(theirs) == len(ours) and all(map(self._same, theirs, ours))

    def _same(self, java: str, ours: tuple[str, float, float]) -> bool:
        first, second, third = java.split(",")
        same_first = _close(float(first), float(ours[0])) if self.kind == "rate" else first == ours[0]
        return same_first and float(second) == ours[1] and _close(float(third), ours[2])


def _granted(quota: MutationQuota, permits: int) -> str:
    try:
        quota.spend(permits)
    except KafkaError:
        return "0"
    return "1"


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-12 * max(abs(one), abs(other))


def run(cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Compare so many cases. Returns what was compared, and the first differences."""
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    differences: list[str] = []
    with JavaOracle(SOURCE) as oracle:
        while counts["cases"] < cases:
            batch = [Case(chance) for _ in range(min(BATCH, cases - counts["cases"]))]
            for case, java in zip(batch, oracle.ask([case.question() for case in batch]), strict=True):
                counts["cases"] += 1
                counts[case.kind] += 1
                counts["steps"] += len(case.steps)
                if not case.agrees(java):
                    differences.append(f"{case.question()}\n  java  {java}\n  kwire {case.answer()}")
    return counts, differences[:FINDINGS_MAX]


def main() -> int:
    """The command line."""
    return main_of_cases("quotas.rates", __doc__, run, cases=100_000, what="cases")


if __name__ == "__main__":
    raise SystemExit(main())
