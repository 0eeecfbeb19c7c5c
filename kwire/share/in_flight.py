"""Records in flight: a state per batch, which is split into a state per offset only where that is needed.

What lives elsewhere: all batches of a partition (`kwire.share.window`).
"""

from __future__ import annotations

from kwire.share.values import NO_MEMBER, RecordState


class InFlightState:
    """The delivery state of one offset, or of all offsets of a batch.

    A change that has to be written is made with `start_transition` and ends with `complete`; meanwhile the state is
    `pending`, and no other change is possible. ``lock_ms`` is when the holder's acquisition ends.
    """

    __slots__ = ("_archived", "_limit", "_previous", "delivery_count", "lock_ms", "member_id", "parts", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str = NO_MEMBER, lock_ms: int | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock_ms = lock_ms
        self.parts: list[InFlightState] | None = None
        """The states of the single offsets if the batch was split while this state was pending."""
        self._previous: tuple[RecordState, str] | None = None
        self._limit = 0
        self._archived = False

    @property
    def pending(self) -> bool:
        """Whether a change waits for its write."""
        return self._previous is not None

    @property
    def acquirable(self) -> bool:
        """Whether a member may acquire the records."""
        return self.state is RecordState.AVAILABLE and self._previous is None

    def acquire(self, member_id: str, lock_ms: int) -> int:
        """Give acquirable records to a member until ``lock_ms``; the new delivery count."""
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.lock_ms = lock_ms
        return self.delivery_count

    def leave(self, state: RecordState, limit: int) -> bool:
        """Change acquired records to ``state``; released records with ``limit`` deliveries are archived instead.

        False if they are not acquired or a change is pending.
        """
        if self._previous is not None or self.state is not RecordState.ACQUIRED:
            return False
        if state is RecordState.AVAILABLE and self.delivery_count >= limit:
            state = RecordState.ARCHIVED
        self.state = state
        self.member_id = NO_MEMBER
        return True

    def start_transition(self, state: RecordState, limit: int) -> bool:
        """`leave`, to be completed after the write. The lock remains until then."""
        previous = (self.state, self.member_id)
        if not self.leave(state, limit):
            return False
        self._previous = previous
        self._limit = limit
        return True

    def complete(self, written: bool, now_ms: int) -> None:
        """End a pending change. If it could not be written, the holder has the records again unless its lock ended."""
        previous, self._previous = self._previous, None
        if written or self._archived:
            self.lock_ms = None
        elif previous is not None:
            if self.lock_ms is not None and self.lock_ms <= now_ms:
                spent = self.delivery_count >= self._limit
                self.state = RecordState.ARCHIVED if spent else RecordState.AVAILABLE
                self.member_id, self.lock_ms = NO_MEMBER, None
            else:
                self.state, self.member_id = previous

    def archive(self) -> None:
        """Archive the records whatever is pending: they are no longer in the log, or their transaction was aborted."""
        self._archived = True
        self.state = RecordState.ARCHIVED
        self.member_id, self.lock_ms = NO_MEMBER, None

    def copy(self) -> InFlightState:
        """The same state for one offset of the batch."""
        copied = InFlightState(self.state, self.delivery_count, self.member_id, self.lock_ms)
        copied._previous, copied._limit, copied._archived = self._previous, self._limit, self._archived
        return copied


class InFlightBatch:
    """A range of offsets in flight; ``offsets`` are the states of single offsets once it is split."""

    __slots__ = ("first_offset", "last_offset", "offsets", "state")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state
        self.offsets: list[InFlightState] | None = None

    def split(self) -> list[InFlightState]:
        """The states of the single offsets."""
        if self.offsets is None:
            self.offsets = [self.state.copy() for _ in range(self.first_offset, self.last_offset + 1)]
            if self.state.pending:
                self.state.parts = self.offsets
        return self.offsets

    def at(self, offset: int) -> InFlightState:
        """The state of an offset within the batch."""
        return self.state if self.offsets is None else self.offsets[offset - self.first_offset]

    def states(self) -> list[InFlightState]:
        """The one state of the batch, or those of its offsets."""
        return [self.state] if self.offsets is None else self.offsets

    def within(self, first_offset: int, last_offset: int) -> bool:
        """Whether the range contains the whole batch."""
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def contains_after_first(self, offset: int) -> bool:
        """Whether the offset is in the batch and not its first."""
        return self.first_offset < offset <= self.last_offset

    def part(self, first_offset: int, last_offset: int) -> list[tuple[int, InFlightState]]:
        """The offsets of a split batch within a range, with their states."""
        first = max(first_offset, self.first_offset)
        last = min(last_offset, self.last_offset)
        return list(zip(range(first, last + 1), self.split()[first - self.first_offset :], strict=False))
