"""`scripts/streams_campaign.py` in small, on both brokers: word counts, sessions and queried tables are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.streams_campaign import Campaign, Plan

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

PLAN = Plan(
    2500,
    seed=3,
    application_kills=1,
    broker_kills=1,
    session_timeout_ms=2000,
    stall_s=120,
    properties=("group.protocol=classic",),  # Streams' own protocol (KIP-1071) is not served
)


def test_results_are_exact_while_application_and_broker_are_killed(broker_kind: str, tmp_path: Path) -> None:
    result = Campaign(tmp_path, broker_kind, PLAN).run()
    assert result["problems"] == []
    assert (result["application_kills"], result["broker_kills"], result["starts"]) == (1, 1, [2])
    assert result["queries_answered"] > 0
