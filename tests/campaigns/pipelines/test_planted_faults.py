"""A small run of `campaigns.pipelines.planted_faults`."""

from __future__ import annotations

import pytest

from campaigns.pipelines import planted_faults


@pytest.mark.campaign
@pytest.mark.parametrize("keys", ["100", "0"], ids=["keys", "no keys"])
def test_faults_among_many_records_are_found(keys: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert planted_faults.main(["--records", "200000", "--each", "2", "--keys", keys]) == 0, capsys.readouterr().out
