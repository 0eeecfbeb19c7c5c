"""A short run of `campaigns/archive/kills.py`: archiver, restore and broker are killed, and both ends stay equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.archive import kills
from campaigns.archive.topics import digest


def test_a_table_equals_its_topic_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "_RESTORE_KILLS", 1)
    summary = kills.run_campaign(tmp_path, "delta", count=6000, kills=2, seed=3)
    assert int(str(summary["records"])) >= 6000
    assert int(str(summary["archiver_kills"])) >= 2 and int(str(summary["broker_kills"])) >= 2


def test_a_record_that_is_lost_doubled_or_changed_makes_a_difference() -> None:
    rows: list[tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]
    rows = [(0, 1, 5, None, b"a", ()), (0, 2, 6, b"", None, (("h", None),))]
    changed = [rows[:1], [*rows, rows[1]], [rows[0], (*rows[1][:3], None, None, rows[1][5])], rows[::-1]]
    digests = {digest(each, offsets=offsets) for each in [rows, *changed] for offsets in (True, False)}
    assert len(digests) == 10
