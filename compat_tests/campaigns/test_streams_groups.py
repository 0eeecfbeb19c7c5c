"""Short runs of `campaigns/streams_groups`, and the proof that they can fail."""

from __future__ import annotations

import pytest

from campaigns.mutants.streams_groups import MUTANTS
from campaigns.streams_groups import assignor, topology

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_tasks_are_assigned_as_in_kafka() -> None:
    counts, differences = assignor.run(2000, seed=7)
    assert differences == []
    assert counts["active"] > 10_000
    assert counts["standby"] > 5000


def test_topologies_are_configured_as_in_kafka() -> None:
    counts, differences = topology.run(2000, seed=7)
    assert differences == []
    outcomes = ["ready", "status 1", "status 2", "status 3", "STREAMS_INVALID_TOPOLOGY", "UNKNOWN_SERVER_ERROR"]
    assert min(counts[outcome] for outcome in outcomes) > 100


@pytest.mark.parametrize("name", MUTANTS)
def test_the_campaign_notices(name: str) -> None:
    assert MUTANTS[name].finding(1) is not None
