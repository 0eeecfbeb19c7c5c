"""A short run of `campaigns/schemas/avro_compatibility.py`, and the proof that it can fail."""

from __future__ import annotations

import pytest

from campaigns.schemas.avro_compatibility import run
from campaigns.schemas.mutants import MUTANTS

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_what_may_follow_is_what_avro_allows() -> None:
    counts, differences = run(3000, seed=7)
    assert differences == []
    assert counts["compatible"] > 700
    assert counts["incompatible"] > 1500


@pytest.mark.parametrize("name", MUTANTS)
def test_the_campaign_notices(name: str) -> None:
    assert MUTANTS[name].finding() is not None
