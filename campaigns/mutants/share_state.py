"""Mutants of the state batches of share groups, which the comparison with Kafka's class must notice
(`campaigns.share.batches`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Mutant
from campaigns.share import batches as campaign
from kwire.coordinator.share import batches
from kwire.coordinator.share.batches import StateBatch


def _later_batches_win() -> Any:
    merged = batches._merged

    def with_the_later_one(lower: StateBatch, upper: StateBatch) -> Iterable[StateBatch]:
        if lower.delivery > upper.delivery:
            return [lower.between(lower.first_offset, upper.first_offset - 1), upper]
        return merged(lower, upper)

    return patch.object(batches, "_merged", with_the_later_one)


def _neighbours_stay_apart() -> Any:
    return patch.object(batches, "_touch", lambda lower, upper: upper.first_offset <= lower.last_offset)


def _the_start_offset_is_ignored() -> Any:
    return patch.object(batches, "_from", lambda found, _start: found)


MUTANTS: dict[str, Mutant] = {
    "later-wins": Mutant("a later batch wins over a greater delivery", _later_batches_win, campaign.run_seeds, 1),
    "apart": Mutant("neighbours with one delivery stay apart", _neighbours_stay_apart, campaign.run_seeds, 1),
    "start": Mutant("what lies below the start offset is kept", _the_start_offset_is_ignored, campaign.run_seeds, 1),
}
