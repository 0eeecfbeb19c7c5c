"""A small run of the campaign that `campaigns/adoption/damage.py` runs in full."""

from __future__ import annotations

from pathlib import Path

from campaigns.adoption.damage import run_campaign


def test_no_damage_of_kafkas_metadata_is_worse_than_an_error_of_one_line(tmp_path: Path) -> None:
    summary = run_campaign(tmp_path, 500, 1)
    assert summary.findings == []
    assert 400 < summary.refused < 500
