"""A share partition in the simplest form: a dictionary from offsets to records, and every rule as a loop over offsets.

It repeats what the share partition did, offset by offset, and checks that it was allowed to do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.base.errors import ErrorCode
from kwire.share.partition import SharePartition, Write
from kwire.share.values import Acknowledgement, AcquiredRecords, FetchedBatch, Limits, PersistedState, StateBatch

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
NEW_STATE = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


@dataclass
class Record:
    """One offset in flight. ``before``: the state and the holder while a change waits for its write."""

    state: int
    count: int
    member: str = ""
    lock_ms: int = 0
    before: tuple[int, str] | None = None
    gone: bool = False

    @property
    def acquirable(self) -> bool:
        """Whether it may be acquired."""
        return self.state == AVAILABLE and self.before is None

    @property
    def done(self) -> bool:
        """Whether it is never delivered again, once what is pending is written."""
        return self.state in {ACKNOWLEDGED, ARCHIVED}


class Model:
    """What is known of each offset."""

    def __init__(self, limits: Limits, persisted: PersistedState) -> None:
        self.limits = limits
        self.start = persisted.start_offset
        self.records: dict[int, Record] = {}
        self.gaps = False
        """Whether the state that was read had gaps, which are still being filled."""
        for first, last, state, count in persisted.batches:
            self.records |= {offset: Record(state, count) for offset in range(first, last + 1)}
        if self.records:
            self.gaps = len(self.records) < max(self.records) - self.start + 1
            self.read_end = max(self.records)
        unread = set(range(self.start, self.end())) - set(self.records)
        self.first_gap = min(unread, default=self.end() + 1)

    def acquired(
        self,
        partition: SharePartition,
        member: str,
        batches: Sequence[FetchedBatch],
        fetch_offset: int,
        max_records: int,
        record_limit: bool,
        aborted: Sequence[FetchedBatch],
        given: Sequence[AcquiredRecords],
        now_ms: int,
    ) -> None:
        """Check and repeat an acquisition."""
        assert sum(last - first + 1 for first, last, _ in given) <= max_records or not record_limit, "too many records"
        room = self.limits.max_record_locks - self.in_flight()
        known = dict(self.records)
        if room > 0 or fetch_offset <= self.end():
            self._archive_compacted(batches[0].base_offset, fetch_offset)
        after = -1
        for first, last, count in given:
            assert after < first <= last, "ranges overlap or are not in order"
            after = last
            for offset in range(first, last + 1):
                self._acquire(offset, count, member, now_ms)
        for offset in range(batches[0].base_offset, batches[-1].last_offset + 1):
            self._read(partition, offset, aborted)
        for offset in set(self.records) - set(known):
            self.start = offset if not known and offset == min(self.records) else self.start
        if given and room <= 0:
            assert self.end() == max(known), "the window grew although it was full"
        available = [o for o, r in known.items() if r.acquirable and o >= max(fetch_offset, batches[0].base_offset)]
        readable = [o for o in available if o <= batches[-1].last_offset and not inside(o, aborted)]
        assert given or aborted or not readable or room <= 0, f"nothing acquired although {readable} were available"
        self._check_lonely(given)

    def _archive_compacted(self, base: int, fetch_offset: int) -> None:
        for offset, record in self.records.items():
            if fetch_offset <= offset < base and record.state == AVAILABLE:
                record.state, record.gone = ARCHIVED, True

    def _acquire(self, offset: int, count: int, member: str, now_ms: int) -> None:
        record = self.records.setdefault(offset, Record(AVAILABLE, 0))
        assert offset >= self.start, "acquired before the start offset"
        assert record.acquirable, f"offset {offset} was acquired while {record}"
        assert count == record.count + 1, "wrong delivery count"
        self.records[offset] = Record(ACQUIRED, count, member, now_ms + self.limits.lock_duration_ms)

    def _read(self, partition: SharePartition, offset: int, aborted: Sequence[FetchedBatch]) -> None:
        """Offsets that are in flight without having been given: aborted ones, and the rest of a batch."""
        batch = partition._window.batches.floor(offset)
        if offset < partition.start_offset and inside(offset, aborted):
            old = self.records.get(offset)
            if old is None or old.acquirable:
                self.records[offset] = Record(ARCHIVED, 1, gone=True)
        elif batch is not None and offset <= batch.last_offset:
            state = batch.at(offset)
            if inside(offset, aborted) and state.state == ARCHIVED:
                old = self.records.get(offset)
                assert old is None or old.acquirable or old.done or old.state == ACQUIRED, "archived while pending"
                self.records[offset] = Record(ARCHIVED, state.delivery_count, gone=True)
            elif offset not in self.records:
                assert state.state == AVAILABLE and state.delivery_count == 0, "new, neither given nor available"
                self.records[offset] = Record(AVAILABLE, 0)

    def _check_lonely(self, given: Sequence[AcquiredRecords]) -> None:
        limit = self.limits.delivery_count_limit
        last = [records for records in given if records.delivery_count == limit > 2]
        if last and len(given) > 1:
            # Offsets of one batch are given before one on its last delivery only if they come first.
            assert records_of(last) <= 1 or given[-1] == last[-1], "a record on its last delivery was not alone"

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
    ) -> tuple[ErrorCode, dict[int, Record]]:
        """The error, and the records that changed."""
        changed: dict[int, Record] = {}
        for acknowledgement in acknowledgements:
            error = self._acknowledge(member, acknowledgement, changed, now_ms)
            if error is not ErrorCode.NONE:
                self.written(changed, False, now_ms)
                return error, {}
        return ErrorCode.NONE, changed

    def _acknowledge(
        self, member: str, acknowledgement: Acknowledgement, changed: dict[int, Record], now_ms: int
    ) -> ErrorCode:
        first, last, types = acknowledgement
        if any(kind not in {0, 1, 2, 3, 4} for kind in types) or len(types) not in {1, last - first + 1}:
            return ErrorCode.INVALID_REQUEST
        if last < self.start:
            return ErrorCode.NONE
        if not any(offset <= max(first, self.start if first < self.start else first) for offset in self.records):
            return ErrorCode.INVALID_RECORD_STATE
        if last not in self.records:
            return ErrorCode.INVALID_REQUEST
        for offset in range(max(first, self.start), last + 1):
            record = self.records.get(offset)
            if record is None:
                continue
            if record.state != ACQUIRED or record.before is not None or record.member != member:
                return ErrorCode.INVALID_RECORD_STATE
            kind = types[0] if len(types) == 1 else types[offset - first]
            if kind == 4 and not self.limits.renew_enabled:
                return ErrorCode.INVALID_RECORD_STATE
            if kind == 4:
                record.lock_ms = now_ms + self.limits.lock_duration_ms
            else:
                self._change(offset, NEW_STATE[kind], changed)
        return ErrorCode.NONE

    def _change(self, offset: int, state: int, changed: dict[int, Record]) -> None:
        record = self.records[offset]
        record.before = record.state, record.member
        spent = state == AVAILABLE and record.count >= self.limits.delivery_count_limit
        record.state, record.member = ARCHIVED if spent else state, ""
        changed[offset] = record

    def release(self, member: str) -> dict[int, Record]:
        """A session ends."""
        changed: dict[int, Record] = {}
        for offset, record in sorted(self.records.items()):
            if record.state == ACQUIRED and record.before is None and record.member == member:
                self._change(offset, ARCHIVED if offset < self.start else AVAILABLE, changed)
        return changed

    def expire(self, now_ms: int) -> dict[int, Record]:
        """Locks end."""
        changed: dict[int, Record] = {}
        for offset, record in sorted(self.records.items()):
            if record.state == ACQUIRED and record.before is None and record.lock_ms <= now_ms:
                self._change(offset, ARCHIVED if offset < self.start else AVAILABLE, changed)
                record.before = None
        return changed

    def written(self, changed: dict[int, Record], written: bool, now_ms: int) -> None:
        """A write has succeeded or failed."""
        for offset, record in changed.items():
            before, record.before = record.before, None
            if written or record.gone or before is None:
                continue
            if record.lock_ms <= now_ms:
                record.state = ARCHIVED if record.count >= self.limits.delivery_count_limit else AVAILABLE
            else:
                record.state, record.member = before
            if offset < self.start and record.state == AVAILABLE:
                record.state = ARCHIVED

    def move_log_start(self, offset: int) -> None:
        """The log begins here."""
        for at, record in self.records.items():
            if at < offset and at >= self.start and record.state == AVAILABLE:
                record.state, record.gone = ARCHIVED, True
        self.start = max(self.start, offset)

    def end(self) -> int:
        """The end of the window."""
        return max(self.records, default=self.start)

    def in_flight(self) -> int:
        """The offsets in the window."""
        return self.end() - self.start + 1 if self.records else 0

    def check(self, partition: SharePartition, told_start: int) -> None:
        """What must hold after every operation. ``told_start``: where the log begins."""
        start = partition.start_offset
        assert start >= self.start >= 0, "the start offset went back"
        for offset, record in self.records.items():
            assert not self.start <= offset < start or (record.done and record.before is None), (
                f"{offset} was left behind"
            )
        self.start = start
        if not partition.in_flight_batches:
            assert all(record.done for record in self.records.values()), "records were forgotten"
            self.records.clear()
        else:
            first = partition._window.batches.first.first_offset
            self.records = {offset: record for offset, record in self.records.items() if offset >= first}
        self.gaps = self.gaps and bool(self.records) and self.end() == self.read_end
        done = sum(record.done for offset, record in self.records.items() if offset >= start)
        assert partition.delivery_complete_count == done, f"{partition.delivery_complete_count} complete, not {done}"
        if self.records:
            assert partition.end_offset == max(self.end(), told_start), "wrong end offset"
        self._check_next(partition)

    def _check_next(self, partition: SharePartition) -> None:
        following = partition.next_fetch_offset()
        waiting = [offset for offset, record in self.records.items() if record.acquirable and offset >= self.start]
        if not self.gaps and self.records and self.end() >= self.start:
            assert following == min(waiting, default=self.end() + 1), (
                f"next fetch offset {following}, not {waiting[:1]}"
            )
        elif waiting:
            assert following <= min(waiting), f"next fetch offset {following} is after {min(waiting)}"


def inside(offset: int, batches: Sequence[FetchedBatch]) -> bool:
    """Whether an offset is in one of the batches."""
    return any(batch.base_offset <= offset <= batch.last_offset for batch in batches)


def records_of(given: Sequence[AcquiredRecords]) -> int:
    """How many records ranges have."""
    return sum(last - first + 1 for first, last, _ in given)


def flat(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    """State batches per offset."""
    return {offset: (int(state), count) for first, last, state, count in batches for offset in range(first, last + 1)}


def check_write(write: Write | None, changed: dict[int, Record]) -> None:
    """What is written must be what changed, and never that something is acquired."""
    expected = {offset: (record.state, record.count) for offset, record in changed.items()}
    assert flat(write.batches if write is not None else []) == expected, "something else is written than what changed"
    assert all(state != ACQUIRED for state, _ in expected.values()), "ACQUIRED is written"
