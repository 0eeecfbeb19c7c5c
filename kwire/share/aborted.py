"""Which batches read from the log belong to aborted transactions (read_committed)."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.share.values import AcquiredRecords, FetchedBatch


def aborted_batches(batches: Sequence[FetchedBatch], transactions: Sequence[tuple[int, int]]) -> list[FetchedBatch]:
    """The batches of aborted transactions, of which each is given by its producer and its first offset."""
    waiting = sorted(transactions, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    aborted = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[-1][1] <= batch.last_offset:
            aborting.add(waiting.pop()[0])
        if batch.abort_marker:
            aborting.discard(batch.producer_id)
        elif batch.transactional and batch.producer_id in aborting:
            aborted.append(batch)
    return aborted


def without(acquired: Sequence[AcquiredRecords], removed: Sequence[FetchedBatch]) -> list[AcquiredRecords]:
    """The acquired ranges without the offsets of some batches. Both are sorted."""
    left = []
    for first, last, count in acquired:
        for batch in removed:
            if batch.last_offset < first or batch.base_offset > last:
                continue
            if batch.base_offset > first:
                left.append(AcquiredRecords(first, batch.base_offset - 1, count))
            first = batch.last_offset + 1
        if first <= last:
            left.append(AcquiredRecords(first, last, count))
    return left
