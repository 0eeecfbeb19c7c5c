"""A small run of the campaign of corruptions: damaged data is never served, and what is changed is told."""

from __future__ import annotations

import pytest

from campaigns import corruption as corruption_campaign


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_no_damage_is_served_and_the_rest_stays_readable(first: int) -> None:
    counts, failures = corruption_campaign.run_seeds(first, 40)
    assert failures == []
    assert counts["batches refused"] and counts["reported"]


FOUND = {
    6: "a block in the wrong place does not hide the batches before it",
    74: "an entry of the transaction index beyond the log is not believed",
    873: "the last entry of an index does not decide where the log ends",
    1438: "the transactions of a segment that is looked at again are known",
    52048: "a flipped leader epoch in a segment that is replayed is put right",
    52276: "a flipped leader epoch in a segment that is replayed is put right",
    5501904: "of several batches with one time the first is found",
    6101377: "a last batch whose offsets neither follow nor end as noted does not move the end of a log",
    6102102: "a log start beyond the end of a log that was killed does not empty it",
    6001186: "a batch that is where it was due is not blamed for the one behind it",
    6001479: "one batch that contradicts the leader epoch file is not believed",
    6002525: "a leader epoch that flips into its neighbour's is not served",
    5002859: "a changed digit in the leader epoch file is noticed after a kill",
    1001382: "a flipped base offset does not keep a broker from starting",
    1002503: "a flipped base offset in a segment that is replayed is put right",
}


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_a_seed_has_found_stays_mended(seed: int) -> None:
    assert corruption_campaign.run_seed(seed)[1] is None, FOUND[seed]
