"""What the benchmark of clusters makes of its values: gaps, growth, goals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.cluster_benchmark import failover, partitions
from tools.cluster_benchmark.report import Results, number


def test_the_gap_is_the_longest_one_that_ends_after_the_kill(tmp_path: Path) -> None:
    file = tmp_path / "acks"
    moments = (0, 5, 6, 8, 9)  # seconds; the kill comes at 7
    file.write_text("".join(f"{at} {at * 10**9} {at}\n" for at in moments) + "5 9500000000 Failed\n6 99")
    assert [each.offset for each in failover.told(file)] == [0, 5, 6, 8, 9, None]
    assert failover._gap_s(file, 7.0) == 2


@pytest.mark.parametrize(("large", "growth"), [(6.0, 1.0), (11.0, 2.0)])
def test_growth_is_what_a_partition_adds_at_the_largest_number(large: float, growth: float) -> None:
    facts = {0: {"start_s": 1.0}, 2000: {"start_s": 2.0}, 10_000: {"start_s": large}}
    assert partitions.growth(facts, "start_s") == pytest.approx(growth)


def test_a_goal_is_judged_by_the_worst_client() -> None:
    results = Results(["kwire", "kafka"])
    for kind, values in (("kwire", (1.0, 6.0)), ("kafka", (10.0, 10.0))):
        facts = dict(zip(("leader/Java", "leader/librdkafka"), values, strict=True))
        results.add(results.failover, "default", kind, {**facts, "leader/elected": 1.0})
    assert "at most 0.60 of Kafka's time, goal 0.5: MISSED" in results.text()


def test_numbers_have_three_figures() -> None:
    assert [number(value, "s") for value in (None, 1234.4, 12.34, 0.123)] == ["-", "1,234 s", "12.3 s", "0.12 s"]
