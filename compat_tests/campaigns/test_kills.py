"""A short run of `campaigns/kills.py`: acknowledged records survive SIGKILL, each exactly once. kwire only."""

from __future__ import annotations

from pathlib import Path

from campaigns.kills import run_campaign


def test_what_was_acknowledged_survives_kills_and_nothing_is_there_twice(tmp_path: Path) -> None:
    summary = run_campaign(tmp_path, seed=4, kills=5, producers=2, verify_every=5)
    assert summary["kills"] == 5
    assert summary["offline_verifications"] == 1
    assert int(str(summary["batches_checked"])) > 0
