"""Small runs of `campaigns.share`; the large ones are in docs/CAMPAIGNS.md."""

from __future__ import annotations

import pytest

from campaigns.mutants.share import MUTANTS
from campaigns.share import deliveries
from campaigns.share.partition import run


def test_share_partitions_do_what_the_model_per_offset_does() -> None:
    counts, failures = run(1, 20)

    assert failures == []
    assert counts["acknowledged NONE"] > 500
    assert counts["rolled back"] > 50


def test_promises_to_members_hold_while_leaders_change_and_writes_get_lost() -> None:
    counts, failures = deliveries.run(1, 50)

    assert failures == []
    assert min(counts["repeated"], counts["written"]) > 1000
    assert min(counts["lost"], counts["fail_over"]) > 100


@pytest.mark.parametrize("name", MUTANTS)
def test_the_campaign_notices(name: str) -> None:
    assert MUTANTS[name].finding(1) is not None, MUTANTS[name].breaks
