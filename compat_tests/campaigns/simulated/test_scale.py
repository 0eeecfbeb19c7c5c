"""Short runs of `campaigns.scale`: what a cluster's life costs grows with its size as it should, by counts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from campaigns.scale.__main__ import main
from campaigns.scale.life import SEED, Life, Outcome, Size, live_apart
from harness.simulation.world import Simulation

SMALL, LARGE = 400, 1600
GROWTH = LARGE / SMALL
MARGIN = 1.25
CALLS_MARGIN = 1.5
"""Of function calls, which a garbage collection or a timer more or less changes."""
CALLS_BY_PERIODIC_WORK = 6
"""For each partition and broker, when retention and checkpoints come by while nothing else happens."""


@cache
def outcome(brokers: int, partitions: int) -> Outcome:
    return live_apart(Size(brokers, partitions, topic_partitions=80), memory_gb=4, count_calls=True)


@pytest.mark.parametrize("step", ["create", "death", "return", "preferred", "restart"])
def test_what_concerns_all_partitions_grows_linearly(step: str) -> None:
    small, large = outcome(3, SMALL).step(step), outcome(3, LARGE).step(step)
    assert small.calls > 0
    assert large.calls <= CALLS_MARGIN * GROWTH * small.calls
    assert large.store_bytes <= MARGIN * GROWTH * small.store_bytes
    assert large.requests_total <= MARGIN * GROWTH * small.requests_total


@pytest.mark.parametrize("step", ["idle", "config", "topic"])
def test_what_concerns_few_partitions_does_not_grow(step: str) -> None:
    small, large = outcome(3, SMALL).step(step), outcome(3, LARGE).step(step)
    assert large.calls <= CALLS_MARGIN * small.calls + 500 + CALLS_BY_PERIODIC_WORK * (LARGE - SMALL)
    assert large.store_bytes <= MARGIN * small.store_bytes
    assert large.requests_total <= MARGIN * small.requests_total + 5


def test_creation_includes_the_first_fetches_of_all_followers() -> None:
    """Without them, the cost of one commit's topics would look smaller than a share of the cost of many."""
    unfollowed: list[tuple[str, int] | None] = []

    class Watched(Life):
        async def _until_followed(self) -> None:
            unfollowed.append(self._cluster.unfollowed())
            await super()._until_followed()
            unfollowed.append(self._cluster.unfollowed())

    simulation = Simulation(SEED)
    simulation.run(Watched(simulation, Size(3, 30, topic_partitions=30)).run())
    before, after = unfollowed[:2]
    assert before is not None
    assert before[0] == "topic-0"
    assert after is None


def test_an_image_takes_little_memory() -> None:
    small, large = outcome(3, SMALL).image_bytes, outcome(3, LARGE).image_bytes
    assert (large - small) / (LARGE - SMALL) < 300


def test_results_of_several_runs_are_kept_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--topic-partitions", "10", "--record", str(tmp_path)]
    assert main(["--brokers", "3", "--partitions", "30", "60", *arguments]) == 0
    assert "growth with partitions" in capsys.readouterr().out
    assert main(["--brokers", "4", "--partitions", "30", *arguments]) == 0
    recorded = json.loads((tmp_path / "scale.json").read_text())
    assert [(row["brokers"], row["partitions"]) for row in recorded] == [(3, 30), (3, 60), (4, 30)]
    assert "death: one broker is killed" in (tmp_path / "scale.txt").read_text()
    assert "4 brokers" in (tmp_path / "scale.svg").read_text()
