"""A small run of the campaign of power losses for compacted logs."""

from __future__ import annotations

import pytest

from campaigns import power_loss_compacted


def test_no_cleaning_loses_what_counts_whenever_the_power_fails() -> None:
    counts, failures = power_loss_compacted.run_seeds(0, 40)
    assert failures == []
    assert counts["records_cleaned_away"] and counts["pieces_of_transactions"] and counts["unsynced_tails_lost"]


# Each of these seeds found a defect once.
FOUND = {
    24: "a segment that was cleaned lies below the recovery point on stable storage",
    23: "a record that supersedes others is synced before they go",
    109: "the end of a transaction is synced before its records go",
    193: "a producer's last sequence that was cleaned away is in a snapshot on stable storage",
}


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_a_seed_has_found_stays_mended(seed: int) -> None:
    assert power_loss_compacted.run_seed(seed)[1] is None, FOUND[seed]
