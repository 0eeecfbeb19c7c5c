"""A short run of `campaigns/share/batches.py`, and the proof that it can fail."""

from __future__ import annotations

import pytest

from campaigns.mutants.share_state import MUTANTS
from campaigns.share.batches import run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_state_batches_are_combined_as_in_kafka() -> None:
    counts, differences = run(10_000, seed=7)
    assert differences == []
    assert counts["many"] > 5000


@pytest.mark.parametrize("name", MUTANTS)
def test_the_campaign_notices(name: str) -> None:
    assert MUTANTS[name].finding() is not None
