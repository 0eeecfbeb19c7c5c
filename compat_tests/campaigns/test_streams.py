"""Short runs of `campaigns/streams.py`: word counts, sessions and queried tables are exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from campaigns.streams import Campaign, Plan

pytestmark = pytest.mark.java

PLAN = Plan(
    2500,
    seed=3,
    application_kills=1,
    broker_kills=1,
    session_timeout_ms=2000,
    stall_s=300,
)
STREAMS_PLAN = replace(PLAN, group_protocol="streams")
CLUSTER_PLAN = replace(PLAN, words=2000, application_kills=0, broker_kills=2, brokers=3)


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        pytest.param("kafka", STREAMS_PLAN, id="kafka-streams"),
        pytest.param("kwire", STREAMS_PLAN, id="kwire-streams"),
        pytest.param("kwire", PLAN, id="kwire-classic"),
    ],
)
def test_results_are_exact_while_application_and_broker_are_killed(kind: str, plan: Plan, tmp_path: Path) -> None:
    result = Campaign(tmp_path, kind, plan).run()
    assert result["problems"] == []
    assert (result["application_kills"], result["broker_kills"], result["starts"]) == (1, 1, [2])
    assert result["queries_answered"] > 0


def test_an_application_goes_on_while_the_leading_broker_of_a_cluster_is_killed(tmp_path: Path) -> None:
    result = Campaign(tmp_path, "kwire", CLUSTER_PLAN).run()
    assert result["problems"] == []
    assert (result["broker_kills"], result["starts"]) == (2, [1])
