"""The campaign of corruption for compacted logs: files that the cleaner has written, and later ones, are damaged.

    .venv/bin/python -m campaigns.corruption_compacted --count 2000 --seed 1

As `campaigns.corruption`, but the real cleaner cleans the logs before the broker stops, and more is written afterwards;
the logs as they are then are the expected content. A read may skip offsets that the cleaner has removed, but no others.
The last batch of a producer whose records were cleaned away, and look-ups by time in gaps, are not checked here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from campaigns import seeds
from campaigns.corruption import CONFIG, Case, Truth, Violation, Written, _dropped
from campaigns.corruption import run_seeds as run_cases
from kwire.base.doors import Clock, Doors
from kwire.codec.records import Record, build_batch, iter_headers
from kwire.log.common.append_info import Origin
from kwire.log.compaction.helper import CleanerHelper
from kwire.log.manager.log_manager import LogManager
from kwire.log.partition.partition_log import PartitionLog


class CompactedCase(Case):
    """One seed, with cleaned logs."""

    config = replace(CONFIG, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    label = "corruption of compacted logs"

    async def _after_filling(self, manager: LogManager, log: PartitionLog, truth: Truth) -> None:
        doors = Doors(clock=Clock(lambda: self.now_ms), files=self.disk, random=self.random, processes=None)
        manager.cleaner.checkpoints.load(manager.directories)
        helper = CleanerHelper(doors)
        while await manager.cleaner.clean_one(0, helper):
            self.counts["cleanings"] += 1
        await manager.cleaner.checkpoints.settled()
        for number, each in self.truth.items():  # the other log may have been cleaned once more
            cleaned = manager.get("t", number)
            each.batches = [] if cleaned is None else self._what_is_there(cleaned)
        for _ in range(self.random.randint(0, 6)):
            self._append(log, truth, self._batch(2, -1, 0), log.epochs.latest_epoch, Origin.CLIENT)

    def _what_is_there(self, log: PartitionLog) -> list[Written]:
        found = []
        for segment in log.segments:
            data = bytes(self.disk._files[segment.file.path].data)[: segment.size]
            for position, header in iter_headers(data):
                batch = Written(
                    log,
                    data[position : position + header.size],
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                    -2 if header.is_control else header.producer_id,
                )
                batch.path, batch.position = segment.file.path, position
                found.append(batch)
        return found

    def _batch(self, count: int, producer_id: int, sequence: int) -> bytearray:
        random = self.random
        size = random.choice((5, 60, 300, 700))
        keys = [b"key-%d" % random.randrange(12) for _ in range(count)]
        records = [Record(timestamp=self.now_ms, key=key, value=random.randbytes(size)) for key in keys]
        who: dict[str, Any] = {}
        if producer_id >= 0:
            who = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        compression = random.choice((0, 0, 2, 3))
        return bytearray(build_batch(records, compression=compression, is_transactional=producer_id == 9, **who))

    def _passes_over(self, truth: Truth, offset: int, base_offset: int) -> bool:
        return any(offset <= batch.last and batch.first < base_offset for batch in truth.batches)

    def _check_rest(self, log: PartitionLog, truth: Truth, unreadable: int) -> None:
        have = log.aborted_transactions(0, log.log_end_offset)
        index_is_hit = self.path.endswith(".txnindex") and os.path.dirname(self.path) == log.directory
        if unreadable == 0 and not index_is_hit and _dropped(log, truth, have) != _dropped(log, truth, truth.aborted):
            raise Violation(f"{log}: aborted {have}, they were {truth.aborted}")


def run_seeds(first: int, count: int) -> seeds.Found:
    """Run the cases of these seeds."""
    return run_cases(first, count, CompactedCase)


if __name__ == "__main__":
    sys.exit(seeds.main("corruption_compacted", "corruption of compacted logs", __doc__, run_seeds, count=2000))
