"""A share partition: the records of one partition in flight to the members of one share group (KIP-932).

It does no input or output: the caller reads the log, writes state to the share coordinator, and passes the time. What
changes acquired records returns a `Write`; once the coordinator has answered, the caller passes it to `committed` or
`failed`, and only then answers the member. That a record is acquired is never written: after a restart or a move of
the leader such records are available again.

State is kept per batch; a batch of n records that is acquired, accepted and forgotten as a whole costs the same for any
n. There are at most ``max_record_locks`` offsets in flight, and those up to the end of the batch that crosses that
limit. What lives elsewhere: sessions and requests (`kwire.handlers.share`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kwire.base.errors import KafkaError
from kwire.share.acknowledging import Acknowledging, Changes, next_deadline, release_expired, release_member
from kwire.share.acquisition import Acquisition, AcquisitionRequest
from kwire.share.values import Acknowledgement, AcquiredRecords, FetchedBatch, Limits, PersistedState, StateBatch
from kwire.share.window import Window


class Write:
    """What WriteShareGroupState takes: the state at the time of the change, and the batches that changed."""

    def __init__(self, state_epoch: int, window: Window, changes: Changes) -> None:
        self.state_epoch = state_epoch
        self.start_offset = window.start_offset
        self.delivery_complete_count = window.delivery_complete_count
        self.batches: list[StateBatch] = changes.batches
        self.changes = changes


class SharePartition:
    """The machine. ``limits`` is called at each operation, because a group's configuration may change.

    A `KafkaError` (``UNKNOWN_SERVER_ERROR``) refuses a persisted state that cannot be.
    """

    def __init__(self, limits: Callable[[], Limits], persisted: PersistedState) -> None:
        self._window = Window(limits, persisted)
        self._limits = limits
        self._deadline_ms: int | None = None
        self.state_epoch = persisted.state_epoch

    @property
    def start_offset(self) -> int:
        """The first offset that may be delivered (SPSO)."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset that has been acquired; the start offset while there are none."""
        return self._window.end_offset

    @property
    def delivery_complete_count(self) -> int:
        """How many records from the start offset on will not be delivered again (KIP-1226)."""
        return self._window.delivery_complete_count

    @property
    def in_flight_records(self) -> int:
        """How many offsets are in flight."""
        return self._window.in_flight

    @property
    def in_flight_batches(self) -> int:
        """How many batches are in flight."""
        return len(self._window.batches)

    def next_fetch_offset(self) -> int:
        """Where to read the log: the first offset that may be acquired, or the one after the window."""
        return self._window.next_fetch_offset()

    def can_acquire(self) -> bool:
        """Whether there are records to acquire again, or room for new ones."""
        window = self._window
        again = window.next_fetch_offset() != window.end_offset + 1
        return again or window.in_flight < self._limits().max_record_locks

    def acquire(
        self,
        member_id: str,
        batches: Sequence[FetchedBatch],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        record_limit: bool,
        aborted: Sequence[FetchedBatch] = (),
        now_ms: int,
    ) -> list[AcquiredRecords]:
        """Give a member records of what was read at ``fetch_offset``, until the locks' duration has passed.

        Without ``record_limit`` more than ``max_records`` may be acquired: whole batches are (KIP-1206). ``aborted``
        are the batches of aborted transactions if the group reads committed records only: they are archived.
        """
        if max_records <= 0 or not batches or batches[-1].last_offset < self._window.start_offset:
            return []
        limits = self._limits()
        lock_ms = now_ms + limits.lock_duration_ms
        request = AcquisitionRequest(
            member_id, batches, fetch_offset, max_records, batch_size, record_limit, lock_ms, limits
        )
        acquired = Acquisition(self._window, request).run(aborted)
        self._window.move_start()
        if acquired:
            self._lock_until(lock_ms)
        return acquired

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement], now_ms: int) -> Write | None:
        """Change what a member acknowledges; None if there is nothing to write.

        `KafkaError` (INVALID_RECORD_STATE, INVALID_REQUEST): all changes are undone, except that locks may be renewed.
        """
        limits = self._limits()
        lock_ms = now_ms + limits.lock_duration_ms
        acknowledging = Acknowledging(self._window, member_id, lock_ms, limits)
        try:
            acknowledging.run(acknowledgements)
        except KafkaError:
            acknowledging.changes.complete(False, now_ms)
            raise
        finally:
            self._lock_until(lock_ms)
        return self._write(acknowledging.changes)

    def release(self, member_id: str) -> Write | None:
        """Release what a member has acquired, because its session is closed."""
        return self._write(release_member(self._window, member_id))

    def next_deadline_ms(self) -> int | None:
        """Not later than the next lock ends: when to call `expire`."""
        return self._deadline_ms

    def expire(self, now_ms: int) -> Write | None:
        """Release the records whose locks have ended. They are available at once, whether or not it can be written."""
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return None
        changes = release_expired(self._window, now_ms)
        self._deadline_ms = next_deadline(self._window)
        return self._write(changes)

    def committed(self, write: Write, now_ms: int) -> bool:
        """A write has succeeded; whether waiting fetches may try again."""
        available = write.changes.complete(True, now_ms)
        return self._window.move_start() or available

    def failed(self, write: Write, now_ms: int) -> bool:
        """A write has failed: members have again what they had; whether waiting fetches may try again.

        Records whose lock has ended meanwhile become available.
        """
        available = write.changes.complete(False, now_ms)
        self._deadline_ms = next_deadline(self._window)
        return self._window.move_start() or available

    def move_log_start(self, log_start_offset: int) -> None:
        """The log begins at this offset: what is before leaves the window, except that holders may still answer."""
        self._window.move_log_start(log_start_offset)

    def _lock_until(self, lock_ms: int) -> None:
        if self._deadline_ms is None or lock_ms < self._deadline_ms:
            self._deadline_ms = lock_ms

    def _write(self, changes: Changes) -> Write | None:
        return Write(self.state_epoch, self._window, changes) if changes.batches else None
