"""A short run of `campaigns/acls/decisions.py`, and the proof that it can fail."""

from __future__ import annotations

import pytest

from campaigns.acls.decisions import run
from campaigns.mutants.acls import MUTANTS

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_kwire_decides_as_kafkas_authorizer() -> None:
    counts, differences = run(3000, seed=7)
    assert differences == []
    assert counts["allowed"] > 2000
    assert counts["denied"] > 2000


@pytest.mark.parametrize("name", MUTANTS)
def test_the_campaign_notices(name: str) -> None:
    assert MUTANTS[name].finding() is not None
