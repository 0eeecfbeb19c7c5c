"""A small run of the campaign of corruptions in compacted logs."""

from __future__ import annotations

from scripts import corruption_compacted


def test_no_damage_to_what_the_cleaner_left_is_served() -> None:
    counts, failures = corruption_compacted.run_seeds(0, 40)
    assert failures == []
    assert counts["batches refused"] and counts["cleanings"] and counts["told"]
