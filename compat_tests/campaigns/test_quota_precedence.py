"""A short run of `campaigns/quotas/precedence.py`, and the proof that it can fail."""

from __future__ import annotations

import pytest

from campaigns.mutants.quotas import MUTANTS
from campaigns.quotas.precedence import run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_the_same_quota_applies_as_in_kafka() -> None:
    counts, differences = run(3000, seed=7)
    assert differences == []
    assert counts["limited"] > 5000
    assert counts["unlimited"] > 5000


@pytest.mark.parametrize("name", MUTANTS)
def test_the_campaign_notices(name: str) -> None:
    assert MUTANTS[name].finding() is not None
