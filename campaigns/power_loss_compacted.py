"""The campaign of power losses for compacted logs: the power fails while they are cleaned, swapped and written.

    .venv/bin/python -m campaigns.power_loss_compacted --count 10000 --seed 1 --jobs 2

As `campaigns.power_loss`, with the real cleaner at work between appends (its records are filtered in this process), and
with transactions that stay open during cleanings and are then committed or aborted. After each loss:

- what was reported as durable is there, up to the log end offset: the last valid record of every key (not of an aborted
  transaction), and every record of an open transaction;
- nothing is there that was not written, and offsets rise; half of all keys are used once, so that a hole shows;
- producers are recognised, leader epochs agree with the batches, and the offline verifier finds nothing.

The exit status is 1 if a seed fails; the failing seeds are printed.
"""

from __future__ import annotations

import sys
from collections import Counter

from campaigns import power_loss as power_loss_campaign
from campaigns import seeds
from campaigns.power_loss import SETTINGS, Model, Violation, World, Written, _read_all
from kwire.codec.records import (
    ABORT,
    COMMIT,
    Record,
    build_batch,
    build_control_batch,
    iter_records,
    parse_end_transaction_marker,
    parse_header,
    patch_offsets,
)
from kwire.log.common.append_info import Origin
from kwire.log.common.log_config import INT64_MAX, LogConfig
from kwire.log.compaction.cleaner import CleanerSettings
from kwire.log.partition.partition_log import PartitionLog

IN_TRANSACTIONS = 9
"""The producer whose batches are transactional."""


class CompactedWorld(World):
    """One seed."""

    settings = SETTINGS._replace(cleaner=CleanerSettings(backoff_ms=3))

    def _label(self, seed: int) -> str:
        return f"power of compacted logs {seed}"

    def _draw_config(self) -> LogConfig:
        random = self.random
        self._once = 0
        return LogConfig(
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0.0,
            internal_segment_bytes=random.choice((1400, 2000, 3000)),
            index_interval_bytes=random.choice((0, 100, 400)),
            flush_messages=random.choice((1, 5, INT64_MAX, INT64_MAX)),
            flush_ms=random.choice((INT64_MAX, INT64_MAX, 30)),
            file_delete_delay_ms=random.choice((0, 20)),
        )

    def _batch(self, count: int, producer_id: int, sequence: int) -> bytearray:
        now_ms, size = self.time_ms(), self.random.choice((5, 60, 300))
        records = [Record(timestamp=now_ms, key=self._key(), value=self.random.randbytes(size)) for _ in range(count)]
        who = (producer_id, 0, sequence) if producer_id >= 0 else (-1, -1, -1)
        return bytearray(build_batch(records, producer_id=who[0], producer_epoch=who[1], base_sequence=who[2]))

    def _key(self) -> bytes:
        if self.random.random() < 0.5:
            return b"often-%d" % self.random.randrange(4)
        self._once += 1
        return b"once-%d" % self._once

    def _something_else(self, log: PartitionLog, model: Model) -> None:
        """A piece of a transaction: a batch, or its end."""
        known = log.producer_state.producers.get(IN_TRANSACTIONS)
        is_open = known is not None and known.txn_first_offset >= 0
        if is_open and self.random.random() < 0.5:
            kind = self.random.choice((COMMIT, ABORT))
            data = bytearray(
                build_control_batch(
                    kind,
                    producer_id=IN_TRANSACTIONS,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=self.time_ms(),
                )
            )
            self._append_now(log, model, data, Origin.COORDINATOR)
            return
        sequence = known.last_sequence + 1 if known else 0
        records = [Record(timestamp=self.time_ms(), key=self._key(), value=b"in a transaction")]
        batch = build_batch(
            records, producer_id=IN_TRANSACTIONS, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        self._append_now(log, model, bytearray(batch), Origin.CLIENT)

    def _append_now(self, log: PartitionLog, model: Model, data: bytearray, origin: Origin) -> None:
        first = log.log_end_offset
        patched = bytearray(data)
        patch_offsets(patched, 0, first, model.epoch)
        written = Written(first, first, bytes(patched), self.time_ms(), model.epoch, IN_TRANSACTIONS, -1, 1)
        model.batches.append(written)
        log.append_as_leader(data, leader_epoch=model.epoch, origin=origin)
        log.advance_high_watermark(log.log_end_offset)
        self.counts["pieces_of_transactions"] += 1

    # After the loss

    def _check_content(self, log: PartitionLog, model: Model) -> None:
        written = {batch.first: batch for batch in model.batches}
        there: set[int] = set()
        last = -1
        for header, data in _read_all(log):
            if header.base_offset <= last:
                raise Violation(f"{log}: offset {header.base_offset} behind {last}")
            last = header.last_offset
            batch = next((b for b in _around(written, header.base_offset, header.last_offset)), None)
            if batch is None:
                raise Violation(f"{log}: a batch at {header.base_offset} was never written")
            if log.epochs.epoch_for_offset(header.last_offset) != batch.epoch:
                raise Violation(f"{log}: epoch of {header.last_offset} is {log.epochs.entries}, not {batch.epoch}")
            due = {record.offset: (record.key, record.value) for record in iter_records(batch.data, max_bytes=1 << 20)}
            for record in iter_records(data, max_bytes=1 << 20):
                if due.get(record.offset) != (record.key, record.value):
                    raise Violation(f"{log}: other content at {record.offset}")
                there.add(record.offset)
        missing = sorted(_counting(model) - there)
        if missing:
            raise Violation(f"{log}: {missing} are missing")
        self.counts["records_cleaned_away"] += sum(batch.count for batch in model.batches) - len(there)

    def _check_lookups(self, log: PartitionLog, model: Model) -> None:
        """Nothing: what a look-up finds depends on what was cleaned, and reading everything has used the indexes."""


def _around(written: dict[int, Written], first: int, last: int) -> list[Written]:
    """The written batch that has a batch's offsets (cleaning may move the base offset of a batch up)."""
    return [batch for offset, batch in written.items() if offset <= first and last <= batch.last]


def _counting(model: Model) -> set[int]:
    """The offsets of the records that no cleaning may remove."""
    newest: dict[bytes | None, int] = {}
    pending: list[tuple[bytes | None, int]] = []
    for batch in model.batches:
        header = parse_header(batch.data)
        records = list(iter_records(batch.data, max_bytes=1 << 20))
        if header.is_control:
            marker = parse_end_transaction_marker(records[0])
            if marker is not None and marker.commit:
                for key, offset in pending:
                    newest[key] = max(offset, newest.get(key, -1))
            pending = []
            continue
        keyed = [(record.key, record.offset) for record in records]
        if header.is_transactional:
            pending += keyed
        else:
            newest.update(keyed)
    return {*newest.values(), *(offset for _, offset in pending)}


def run_seed(seed: int) -> tuple[Counter[str], str | None]:
    """Run one seed; return the counts of what happened, and the failure or None."""
    return power_loss_campaign.run_seed(seed, CompactedWorld)


def run_seeds(first: int, count: int) -> seeds.Found:
    """Run the seeds one after the other."""
    return power_loss_campaign.run_seeds(first, count, CompactedWorld)


if __name__ == "__main__":
    sys.exit(seeds.main("power_loss_compacted", "power loss of compacted logs", __doc__, run_seeds, count=10_000))
