"""Changes of acquired records: acknowledgements, releases and locks that end. What is changed has to be written.

What lives elsewhere: writing it, and what follows from that (`kwire.share.partition`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.share.in_flight import InFlightBatch, InFlightState
from kwire.share.values import NO_MEMBER, TERMINAL, Acknowledgement, AcknowledgeType, Limits, RecordState, StateBatch
from kwire.share.window import Window

STATES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""The state that an acknowledgement leads to; a renewal leads to none."""


class Changes:
    """Changes of records by one request, to be completed or rolled back together."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._changed: list[tuple[int, int, InFlightState, RecordState]] = []
        self.batches: list[StateBatch] = []
        """What to write; adjacent offsets with the same state are one batch."""

    def start(self, first: int, last: int, state: InFlightState, new: RecordState, limit: int) -> bool:
        """Start to change the records of a range; False if they cannot be changed."""
        if not state.start_transition(new, limit):
            return False
        self._changed.append((first, last, state, state.state))
        self.note(first, last, state)
        return True

    def note(self, first: int, last: int, state: InFlightState) -> None:
        """Count and write a state that has been changed."""
        if state.state in TERMINAL:
            self._window.delivery_complete_count += self._window.in_window(first, last)
        before = self.batches[-1] if self.batches else None
        batch = StateBatch(first, last, state.state, state.delivery_count)
        if before is not None and before.last_offset + 1 == first and before[2:] == batch[2:]:
            batch = batch._replace(first_offset=before.first_offset)
            self.batches.pop()
        self.batches.append(batch)

    def complete(self, written: bool, now_ms: int) -> bool:
        """End all changes; whether records are available again."""
        available = False
        for first, last, whole, target in self._changed:
            parts = [whole] if whole.parts is None else whole.parts
            size = last - first + 1 if whole.parts is None else 1
            for index, state in enumerate(parts):
                state.complete(written, now_ms)
                available |= state.state is RecordState.AVAILABLE
                if target in TERMINAL and state.state not in TERMINAL:
                    begin = first + index
                    self._window.delivery_complete_count -= self._window.in_window(begin, begin + size - 1)
            whole.parts = None
            if available and first < self._window.start_offset:
                # The log start moved past them while the write was pending.
                self._window.archive(
                    first, min(last, self._window.start_offset - 1), RecordState.AVAILABLE, count=False
                )
        self._window.search |= available
        return available


class Acknowledging:
    """The acknowledgements of one request of a member."""

    def __init__(self, window: Window, member_id: str, lock_ms: int, limits: Limits) -> None:
        self._window = window
        self._member_id = member_id
        self._lock_ms = lock_ms
        self._limits = limits
        self.changes = Changes(window)

    def run(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Change what is acknowledged. A `KafkaError` leaves the changes made so far to be rolled back."""
        for acknowledgement in acknowledgements:
            check_types(acknowledgement)
            if acknowledgement.last_offset >= self._window.start_offset:
                for batch in self._batches(acknowledgement):
                    if batch.last_offset >= max(self._window.start_offset, acknowledgement.first_offset):
                        self._acknowledge(batch, acknowledgement)

    def _batches(self, acknowledgement: Acknowledgement) -> list[InFlightBatch]:
        first, last, _ = acknowledgement
        batches = self._window.batches
        floor = batches.floor(first)
        if floor is None and first < self._window.start_offset <= last:
            floor = batches.floor(self._window.start_offset)
        if floor is None:
            raise invalid_state(f"No records are in flight at offset {first}")
        found = batches.between(floor.first_offset, last)
        end = found[-1].last_offset
        if end < first or end < last:
            text = f"Offsets {first} to {last} are acknowledged; the records in flight there end at offset {end}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return found

    def _acknowledge(self, batch: InFlightBatch, acknowledgement: Acknowledgement) -> None:
        first, last, types = acknowledgement
        if batch.offsets is None:
            self._check(batch.first_offset, batch.state)
            start_within = batch.contains_after_first(self._window.start_offset)
            if len(types) == 1 and batch.within(first, last) and not start_within:
                self._change(batch.first_offset, batch.last_offset, batch.state, types[0])
                return
        for offset, state in batch.part(max(first, self._window.start_offset), last):
            self._check(offset, state)
            self._change(offset, offset, state, types[0] if len(types) == 1 else types[offset - first])

    def _check(self, offset: int, state: InFlightState) -> None:
        if state.state is not RecordState.ACQUIRED or state.pending:
            raise invalid_state(f"The record at offset {offset} is not acquired")
        if state.member_id != self._member_id:
            raise invalid_state(f"The record at offset {offset} is acquired by another member")

    def _change(self, first: int, last: int, state: InFlightState, kind: int) -> None:
        if kind != AcknowledgeType.RENEW:
            self.changes.start(first, last, state, STATES[AcknowledgeType(kind)], self._limits.delivery_count_limit)
        elif self._limits.renew_enabled:
            state.lock_ms = self._lock_ms
        else:
            raise invalid_state("The group's configuration does not allow renewing acquisition locks")


def check_types(acknowledgement: Acknowledgement) -> None:
    """Each type must be known, and there must be one, or one for each offset."""
    first, last, types = acknowledgement
    if any(not 0 <= kind <= AcknowledgeType.RENEW for kind in types):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(types)}")
    if not first <= last or len(types) not in {1, last - first + 1}:
        text = f"{len(types)} acknowledge types for the offsets {first} to {last}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def invalid_state(text: str) -> KafkaError:
    """The error of an acknowledgement that does not fit the state of the records."""
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, text)


def release_member(window: Window, member_id: str) -> Changes:
    """Release what a member has acquired; records before the start offset are archived."""
    limit = window.limits().delivery_count_limit
    changes = Changes(window)
    for first, last, state in _held(window):
        if state.member_id in {member_id, NO_MEMBER} and not state.pending:
            changes.start(first, last, state, _released(window, last), limit)
    return changes


def release_expired(window: Window, now_ms: int) -> Changes:
    """Release records whose locks have ended. They are available before that is written."""
    limit = window.limits().delivery_count_limit
    changes = Changes(window)
    for first, last, state in _held(window):
        if state.lock_ms is not None and state.lock_ms <= now_ms and state.leave(_released(window, last), limit):
            state.lock_ms = None
            changes.note(first, last, state)
            window.search |= state.state is RecordState.AVAILABLE
    return changes


def next_deadline(window: Window) -> int | None:
    """When the first lock ends, in milliseconds."""
    return min((state.lock_ms for *_, state in _held(window) if state.lock_ms is not None), default=None)


def _released(window: Window, last_offset: int) -> RecordState:
    return RecordState.ARCHIVED if last_offset < window.start_offset else RecordState.AVAILABLE


def _held(window: Window) -> Iterable[tuple[int, int, InFlightState]]:
    """The acquired records, by ranges with one state. A batch that the start offset divides is split before."""
    for batch in window.batches:
        if batch.offsets is None:
            if batch.state.state is not RecordState.ACQUIRED:
                continue
            if not batch.contains_after_first(window.start_offset):
                yield batch.first_offset, batch.last_offset, batch.state
                continue
        for offset, state in enumerate(batch.split(), batch.first_offset):
            if state.state is RecordState.ACQUIRED:
                yield offset, offset, state
