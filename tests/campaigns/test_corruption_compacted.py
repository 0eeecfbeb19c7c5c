"""A small run of the campaign of corruptions in compacted logs."""

from __future__ import annotations

import pytest

from campaigns import corruption_compacted


def test_no_damage_to_what_the_cleaner_left_is_served() -> None:
    counts, failures = corruption_compacted.run_seeds(0, 40)
    assert failures == []
    assert counts["batches refused"] and counts["cleanings"] and counts["reported"]


# Each of these seeds found a defect once.
FOUND = {
    30331: "a log that was cleaned is not cut at its first gap when the recovery point does not read",
    7000208: "where an epoch began is known, though its first batches were compacted away",
    30924: "a batch with an impossible offset does not keep the indexes from being rebuilt",
}


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_a_seed_has_found_stays_mended(seed: int) -> None:
    assert corruption_compacted.run_seeds(seed, 1)[1] == [], FOUND[seed]
