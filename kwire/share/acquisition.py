"""Acquiring records: which of the records read from the log a member gets.

Whole batches are acquired where possible. A batch is split if only a part of it was read or may be acquired: because
the member wants no more records than it asked for (``record_limit``, KIP-1206), or because its records have been
delivered so often that they are given out in ever smaller sets, and alone on their last delivery, so that one record
that cannot be processed does not take others with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire.share.aborted import without
from kwire.share.in_flight import InFlightBatch, InFlightState
from kwire.share.values import AcquiredRecords, FetchedBatch, Limits, RecordState
from kwire.share.window import Window


class AcquisitionRequest(NamedTuple):
    """Who acquires, from what was read at ``fetch_offset``; at most about ``max_records``, in batches of ``batch_size``
    records or more; exactly ``max_records`` at most with ``record_limit``."""

    member_id: str
    batches: Sequence[FetchedBatch]
    fetch_offset: int
    max_records: int
    batch_size: int
    record_limit: bool
    lock_ms: int
    limits: Limits

    @property
    def base_offset(self) -> int:
        """The first offset that was read."""
        return self.batches[0].base_offset

    def batch_end(self, offset: int) -> int:
        """The end of the batch that was read with this offset; the offset itself if there is none."""
        for batch in self.batches:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset


class Acquisition:
    """One member's acquisition of records in a window."""

    def __init__(self, window: Window, request: AcquisitionRequest) -> None:
        self._window = window
        self._request = request
        self._acquired: list[AcquiredRecords] = []
        self._count = 0
        self._wanted, self._last_offset = self._bounds()

    def _bounds(self) -> tuple[int, int]:
        """How many records may be acquired, up to which offset. In a full window only those before its end."""
        window, request = self._window, self._request
        last = request.batches[-1].last_offset
        room = min(request.max_records, request.limits.max_record_locks - window.in_flight)
        if room > 0 or request.fetch_offset > window.end_offset:
            return room, last
        wanted = min(request.max_records, window.end_offset - request.fetch_offset + 1)
        return wanted, min(last, window.end_offset)

    def run(self, aborted: Sequence[FetchedBatch]) -> list[AcquiredRecords]:
        """The records that the member has acquired, without those of aborted transactions."""
        if self._wanted <= 0:
            return []
        window, request = self._window, self._request
        self._archive_compacted()
        base = self._base_offset()
        batches = window.batches.between(min(request.base_offset, base), self._last_offset)
        if not batches:
            self._acquire_new(base, self._last_offset)
        else:
            self._acquire_in_window(batches, base)
        return self._without_aborted(aborted)

    def _archive_compacted(self) -> None:
        """Offsets between what was asked for and what was read are no longer in the log."""
        window, first, end = self._window, self._request.fetch_offset, self._request.base_offset
        if first < end and window.archive(first, end - 1, RecordState.AVAILABLE, count=True):
            window.search = True

    def _base_offset(self) -> int:
        base = self._request.base_offset
        batch = self._window.batches.floor(base)
        if batch is not None and batch.last_offset >= base:
            return batch.first_offset
        return max(base, self._window.start_offset)

    def _acquire_in_window(self, batches: list[InFlightBatch], base: int) -> None:
        window = self._window
        gap = max(base, window.start_offset)
        for batch in batches:
            if self._count >= self._wanted:
                break
            if window.gap_start is not None:
                if gap < batch.first_offset:
                    self._acquire_new(gap, batch.first_offset - 1)
                gap = max(batch.last_offset + 1, window.start_offset)
                if self._count >= self._wanted:
                    break
            if self._acquire_again(batch):
                self._wanted = 0
        tail = max(batches[-1].last_offset + 1, window.start_offset)
        if self._count < self._wanted and tail <= self._last_offset:
            self._acquire_new(tail, self._last_offset)
        if self._acquired:
            window.gap_filled_until(self._acquired[-1].last_offset + 1)

    def _acquire_again(self, batch: InFlightBatch) -> bool:
        """Acquire the available records of a batch; True if nothing else may be acquired with them."""
        request = self._request
        throttled = self._throttled(batch)
        if throttled and self._count:
            return True
        left = self._wanted - self._count
        whole = batch.within(request.base_offset, self._last_offset)
        limited = request.record_limit and batch.last_offset - batch.first_offset + 1 > left
        if batch.offsets is None:
            if not batch.state.acquirable:
                return False
            if whole and not limited and not throttled:
                count = batch.state.acquire(request.member_id, request.lock_ms)
                self._add(AcquiredRecords(batch.first_offset, batch.last_offset, count))
                return False
        return self._acquire_offsets(batch, left) > 0 and throttled

    def _throttled(self, batch: InFlightBatch) -> bool:
        limit = self._request.limits.throttling_from
        if batch.offsets is None:
            return batch.state.acquirable and batch.state.delivery_count >= limit
        read = batch.part(self._request.base_offset, self._last_offset)
        return any(state.acquirable and state.delivery_count >= limit for _, state in read)

    def _acquire_offsets(self, batch: InFlightBatch, left: int) -> int:
        """Acquire single offsets of a batch; how many."""
        request, delivery_limit = self._request, self._request.limits.delivery_count_limit
        throttled = 0
        taken: list[AcquiredRecords] = []
        for offset, state in batch.part(request.base_offset, self._last_offset):
            if not state.acquirable:
                continue
            last_delivery = delivery_limit > 2 and state.delivery_count == delivery_limit - 1
            if last_delivery and taken:
                break
            if state.delivery_count >= request.limits.throttling_from and not throttled:
                times = state.delivery_count - request.limits.throttling_from + 1
                throttled = max(1, (batch.last_offset - batch.first_offset + 1) >> times)
            taken.append(AcquiredRecords(offset, offset, state.acquire(request.member_id, request.lock_ms)))
            if last_delivery or len(taken) == throttled or (request.record_limit and len(taken) == left):
                break
        self._add_joined(taken)
        return len(taken)

    def _add_joined(self, taken: list[AcquiredRecords]) -> None:
        """Add single offsets, adjacent ones with the same delivery count as one range."""
        joined: list[AcquiredRecords] = []
        for first, last, count in taken:
            before = joined[-1] if joined else None
            if before is not None and before.last_offset + 1 == first and before.delivery_count == count:
                joined[-1] = AcquiredRecords(before.first_offset, last, count)
            else:
                joined.append(AcquiredRecords(first, last, count))
        for records in joined:
            self._add(records)

    def _add(self, records: AcquiredRecords) -> None:
        self._acquired.append(records)
        self._count += records.last_offset - records.first_offset + 1

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire records that were not in flight, to the end of the batch with the last one that is wanted."""
        window, request = self._window, self._request
        if not len(window.batches):
            first = max(first, window.end_offset)
        if first > last:
            return  # the window is full, and what was read is behind it
        end, wanted = last, self._wanted - self._count
        if wanted < last - first + 1:
            end = request.batch_end(first + wanted - 1)
            if window.gap_start is not None:
                end = min(end, last)
        if request.record_limit and end - first + 1 > wanted:
            self._add_part(first, end, first + wanted - 1)
        else:
            self._add_batches(first, end)
        if window.batches.first.first_offset == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, end)
        window.gap_filled_until(self._acquired[-1].last_offset + 1)

    def _add_part(self, first: int, end: int, acquired_end: int) -> None:
        """A new batch of which only the first records are acquired."""
        request = self._request
        batch = InFlightBatch(first, end, InFlightState(RecordState.AVAILABLE, 0))
        for _, state in batch.part(first, acquired_end):
            state.acquire(request.member_id, request.lock_ms)
        self._window.batches.add(batch)
        self._window.search = True
        self._add(AcquiredRecords(first, acquired_end, 1))

    def _add_batches(self, first: int, end: int) -> None:
        """New batches of at least the batch size that begin where batches of the log begin."""
        request = self._request
        if not request.record_limit and end - first + 1 > request.batch_size:
            for batch in request.batches:
                if batch.base_offset > end:
                    break
                if batch.base_offset - first >= request.batch_size:
                    self._add_batch(first, batch.base_offset - 1)
                    first = batch.base_offset
        self._add_batch(first, end)

    def _add_batch(self, first: int, last: int) -> None:
        state = InFlightState(RecordState.ACQUIRED, 1, self._request.member_id, self._request.lock_ms)
        self._window.batches.add(InFlightBatch(first, last, state))
        self._add(AcquiredRecords(first, last, 1))

    def _without_aborted(self, aborted: Sequence[FetchedBatch]) -> list[AcquiredRecords]:
        if not aborted:
            return self._acquired
        for batch in aborted:
            self._window.archive(batch.base_offset, batch.last_offset, RecordState.ACQUIRED, count=True)
        return without(self._acquired, aborted)
