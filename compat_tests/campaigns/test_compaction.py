"""A short run of `campaigns/compaction.py`: a topic that is compacted while in use has the model's content."""

from __future__ import annotations

import json

import pytest

from campaigns.compaction import main


def test_a_small_campaign_finds_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--count", "30000", "--keys", "1000", "--seconds", "0.5", "--segment-bytes", "60000", "--no-java"]
    assert main([*small, "--part", "content", "--seed", "7"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["content"]
    assert found["problems"] == []
    assert found["cleanings"] > 0 and found["reader"]["rounds"] > 0 and found["reader"]["records_checked"] > 0
