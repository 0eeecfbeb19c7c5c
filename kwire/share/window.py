"""The window of a share partition: the offsets from its start to its end, and the batches in flight between.

The start offset (SPSO in KIP-932) moves when the first records are acknowledged or archived, the end offset when new
records are acquired. A state read from the coordinator may have gaps: offsets that had never been acquired. While the
end offset is still the one that was read, offsets without a batch are such a gap and have to be fetched; afterwards
they are offsets that the log no longer has.

What lives elsewhere: who acquires (`kwire.share.acquisition`) and what follows (`kwire.share.acknowledging`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.share.batches import InFlightBatches
from kwire.share.in_flight import InFlightBatch, InFlightState
from kwire.share.values import TERMINAL, Limits, PersistedState, RecordState, StateBatch


class Window:
    """The offsets of a share partition in flight.

    ``delivery_complete_count`` is the number of records at or after the start offset that will not be delivered again
    (KIP-1226); ``search`` is True if there may be records to fetch before the end offset.
    """

    def __init__(self, limits: Callable[[], Limits], persisted: PersistedState) -> None:
        self.limits = limits
        self.start_offset = persisted.start_offset
        self.end_offset = persisted.start_offset
        self.delivery_complete_count = 0
        self.search = False
        self.batches = InFlightBatches()
        self._gap_start: int | None = None
        self._gap_end = -1
        self._restore(persisted.batches)

    def _restore(self, batches: Iterable[StateBatch]) -> None:
        expected = self.start_offset
        for first, last, state, count in batches:
            if not expected <= first <= last:
                text = f"The share-group state has a batch {first} to {last}; expected was offset {expected} or more"
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            if self._gap_start is None and first > expected:
                self._gap_start = expected
            expected = last + 1
            self.batches.add(InFlightBatch(first, last, InFlightState(RecordState(state), count)))
            if state in TERMINAL:
                self.delivery_complete_count += last - first + 1
        if len(self.batches):
            self.search = True
            self.end_offset = self._gap_end = self.batches.last.last_offset
            self.move_start()

    @property
    def gap_start(self) -> int | None:
        """The first offset that may be in a gap of the state that was read; None if there is none (any more)."""
        if self._gap_start is None or self._gap_end != self.end_offset:
            return None
        return max(self._gap_start, self.start_offset)

    def gap_filled_until(self, offset: int) -> None:
        """What is before this offset is no longer a gap."""
        if self._gap_start is not None:
            open_still = self._gap_end == self.end_offset and offset <= self._gap_end
            self._gap_start = max(self._gap_start, offset) if open_still else None

    def _has_gap(self) -> bool:
        """Whether a gap of the state that was read is left."""
        following = self.gap_start
        if following is None:
            return False
        for batch in self.batches:
            if batch.first_offset > following:
                return True
            following = max(following, batch.last_offset + 1)
        return False

    @property
    def in_flight(self) -> int:
        """How many offsets the window has."""
        return self.end_offset - self.start_offset + 1 if len(self.batches) else 0

    def in_window(self, first_offset: int, last_offset: int) -> int:
        """How many offsets of a range are at or after the start offset."""
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)

    def next_fetch_offset(self) -> int:
        """Where to read the log: at the first record that may be acquired, or after the window."""
        if not len(self.batches) or self.start_offset > self.batches.last.last_offset:
            self.search = False
            return self.end_offset
        found = self._first_acquirable() if self.search else None
        if found is None:
            self.search = False
            return self.end_offset + 1
        return found

    def _first_acquirable(self) -> int | None:
        gap = self.gap_start
        for batch in self.batches:
            if gap is not None:
                if batch.first_offset > gap:
                    return gap
                gap = max(batch.last_offset + 1, gap)
            if batch.offsets is None:
                if batch.state.acquirable:
                    return batch.first_offset
                continue
            for offset, state in enumerate(batch.offsets, batch.first_offset):
                if state.acquirable:
                    return offset
        return None

    def archive(self, first_offset: int, last_offset: int, state: RecordState, count: bool) -> bool:
        """Archive the records of a range that are in ``state``; whether there were any.

        ``count``: they count as completed deliveries.
        """
        before = self.batches.floor(first_offset)
        begin = first_offset if before is None else before.first_offset
        archived = 0
        for batch in self.batches.between(begin, last_offset):
            if batch.offsets is None and (batch.state.state is not state or batch.last_offset < first_offset):
                continue
            if batch.offsets is None and batch.within(first_offset, last_offset):
                batch.state.archive()
                archived += batch.last_offset - batch.first_offset + 1
                continue
            for _, part in batch.part(first_offset, last_offset):
                if part.state is state:
                    part.archive()
                    archived += 1
        if count:
            self.delivery_complete_count += archived
        return archived > 0

    def move_log_start(self, offset: int) -> None:
        """Records before an offset have left the log: archive those that are available, and start there."""
        if offset <= self.start_offset:
            return
        if not len(self.batches):
            self.start_offset = self.end_offset = offset
            self.delivery_complete_count = 0
            return
        completed = self._completed_before(offset)
        if self.archive(self.start_offset, offset - 1, RecordState.AVAILABLE, count=False):
            self.search = True
        self.start_offset = offset
        self.delivery_complete_count -= completed
        self.end_offset = max(self.end_offset, offset)

    def _completed_before(self, end: int) -> int:
        completed = 0
        for batch in self.batches.between(0, end - 1):
            first, last = max(batch.first_offset, self.start_offset), min(batch.last_offset, end - 1)
            if batch.offsets is None:
                completed += max(0, last - first + 1) if batch.state.state in TERMINAL else 0
            else:
                completed += sum(state.state in TERMINAL for _, state in batch.part(first, last))
        return completed

    def move_start(self) -> bool:
        """Move the start offset past the records at the start that are complete, and forget them; whether it did."""
        if self._gap_start is not None and not self._has_gap():
            self._gap_start = None
        if not self._start_completed():
            return False
        end, completed = self._completed_prefix()
        if end is None:
            return False
        if end == self.batches.last.last_offset:
            self.start_offset = self.end_offset = max(self.start_offset, end + 1)
            self.batches.remove_until(end)
            self.delivery_complete_count = 0
            return True
        self._start_after(end)
        self.delivery_complete_count -= completed
        self.batches.remove_until(end)
        return True

    def _start_after(self, end: int) -> None:
        batch, following = self.batches.floor(end), self.batches.after(end)
        if batch is not None and batch.last_offset == end and following is not None:
            gap = self.gap_start
            start = following.first_offset if gap is None else min(gap, following.first_offset)
        else:
            start = end + 1
        self.start_offset = max(self.start_offset, start)

    def _start_completed(self) -> bool:
        batch = self.batches.floor(self.start_offset)
        if batch is None:
            return False  # nothing in flight, or a gap at the start
        state = batch.at(min(self.start_offset, batch.last_offset))
        return not state.pending and state.state in TERMINAL

    def _completed_prefix(self) -> tuple[int | None, int]:
        """The last offset of the complete records at the start, and how many of them are in the window."""
        end: int | None = None
        completed = 0
        gap = self.gap_start
        for batch in self.batches:
            if gap is not None and batch.last_offset >= gap:
                break
            if batch.offsets is None:
                if batch.state.pending or batch.state.state not in TERMINAL:
                    break
                end = batch.last_offset
                completed += self.in_window(batch.first_offset, end)
                continue
            for offset, state in enumerate(batch.offsets, batch.first_offset):
                if state.pending or state.state not in TERMINAL:
                    return end, completed
                end = offset
                completed += offset >= self.start_offset
        return end, completed
