"""Random state batches through Kafka's `PersisterStateBatchCombiner` and kwire's `combine`: no difference is allowed.

    .venv/bin/python -m campaigns.share.batches --cases 100000 --seed 1

A case is what a share partition has so far, as earlier combinations have left it or not, what is added, and a start
offset. Offsets are few, so that batches overlap, touch and cover each other. A line of JSON is printed, then the first
differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import json
import random
from typing import Final

from campaigns.java.oracle import OracleCampaign
from harness.paths import ROOT
from kwire.coordinator.share.batches import StateBatch, combine

SOURCE: Final = ROOT / "campaigns" / "java" / "StateBatchOracle.java"
STATES: Final = (0, 2, 4)


class Case:
    """Batches so far, batches that are added, and a start offset."""

    def __init__(self, chance: random.Random) -> None:
        self._span = chance.choice((8, 30, 200))
        self.so_far = self._batches(chance, chance.randrange(10))
        if chance.random() < 0.7:
            self.so_far = combine(self.so_far, -1)
        self.added = self._batches(chance, chance.randrange(6))
        self.start = chance.choice((-1, -1, chance.randrange(self._span)))

    def _batches(self, chance: random.Random, count: int) -> list[StateBatch]:
        found = []
        for _ in range(count):
            first = chance.randrange(self._span)
            last = first + chance.choice((0, 0, 1, chance.randrange(self._span)))
            found.append(StateBatch(first, last, chance.randrange(1, 4), chance.choice(STATES)))
        return found

    def question(self) -> str:
        """The line that asks Java."""
        return json.dumps([self.so_far, self.added, self.start])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        return json.dumps(combine((*self.so_far, *self.added), self.start), separators=(",", ":"))


def _counts(answer: str) -> dict[str, int]:
    batches = json.loads(answer)
    return {"empty": not batches, "one": len(batches) == 1, "many": len(batches) > 1}


CAMPAIGN: Final = OracleCampaign("share.batches", __doc__, SOURCE, Case, _counts, "state batches")
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
