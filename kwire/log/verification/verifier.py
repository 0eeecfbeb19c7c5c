"""Verifying data found on disk once, before it is served: `verify` scans one segment and records the damage in it.

What this process appends was validated on receipt. What it finds in the files at start was not, unless recovery has
read it: the first read of such a segment has it verified, up to `Segment.unverified`. A damaged range is never served;
it is logged once, with file and position, and the rest stays readable. The indexes are compared with the batches at the
same time, and rebuilt if they do not fit.

`Verifier` does this for one log: at once if the segment is small or the caller cannot wait, otherwise in slices between
which the event loop continues, with the bytes read on a thread. Truncation and quarantine at start are `recovery`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from kwire.log.common.append_info import AbortedTransaction
from kwire.log.common.environment import LogEnvironment, logger, loop_runs
from kwire.log.segment.batch_scan import ScannedBatch
from kwire.log.segment.damage import Damage, scan_with_damage
from kwire.log.segment.segment import Segment
from kwire.log.state.log_view import LogView, PartOfLog
from kwire.log.state.producer_snapshot import CorruptSnapshot
from kwire.log.state.producer_state import ProducerStateManager

SLICE_BYTES: Final = 256 * 1024
"""After so many bytes the event loop continues."""

AT_ONCE_BYTES: Final = 256 * 1024
"""Up to so many bytes are verified while the reader waits: that costs less than a thread."""

LOOK_UP_BYTES: Final = 16 * 1024 * 1024
"""Up to so many bytes are verified during a look-up by time; in a larger segment it uses the headers unverified."""

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
FOREVER: Final = 1 << 62


class _Indexes:
    """Rebuilds the indexes of a segment from its batches, and compares them with those found."""

    def __init__(self, segment: Segment, interval: int) -> None:
        self._base_offset = segment.base_offset
        self._interval = interval
        self._since_entry = 0
        self._offsets = _OFFSET_ENTRY.iter_unpack(bytes(segment.index.data))  # copies: the indexes may grow meanwhile
        self._times = _TIME_ENTRY.iter_unpack(bytes(segment.time_index.data))
        last = segment.time_index.last()
        self._last_time_found = -1 if last is None else last[0]
        self._next_offset = next(self._offsets, None)
        self._next_time = next(self._times, None)
        self.offset_data = bytearray()
        self.time_data = bytearray()
        self.max_timestamp = -1
        self._offset_of_max = -1
        self._last_time = -1

    def note(self, batch: ScannedBatch) -> None:
        header = batch.header
        relative = header.last_offset - self._base_offset
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self._offset_of_max = header.max_timestamp, relative
        if self._since_entry > self._interval:
            self.offset_data += _OFFSET_ENTRY.pack(relative, batch.position)
            self._note_time()
            self._since_entry = 0
        self._since_entry += header.size
        if self._next_offset == (relative, batch.position):
            self._next_offset = next(self._offsets, None)
        if self._next_time == (header.max_timestamp, relative) and self._offset_of_max == relative:
            self._next_time = next(self._times, None)

    def _note_time(self) -> None:
        if self.max_timestamp > self._last_time:
            self.time_data += _TIME_ENTRY.pack(self.max_timestamp, self._offset_of_max)
            self._last_time = self.max_timestamp

    def finish(self, end: int, last_offset: int, *, complete: bool) -> bool:
        """Whether the indexes fit the batches, which end at position ``end`` with ``last_offset``. If these are all of
        the segment (``complete``), the indexes must end with them; otherwise segment and indexes have grown since."""
        if complete:
            self._note_time()
        if self._next_offset is not None and (complete or self._next_offset[1] < end):
            return False
        if self._next_time is not None and (complete or self._next_time[1] <= last_offset - self._base_offset):
            return False
        return not complete or self._last_time_found == self.max_timestamp or self.max_timestamp < 0


def verify(env: LogEnvironment, log: LogView, segment: Segment) -> Iterator[int]:
    """Verify what was found in a segment at start; yields its position about every `SLICE_BYTES`. OSError."""
    segment.file.retain()
    try:
        yield from _verify(env, log, segment)
    finally:
        segment.file.release()


def _verify(env: LogEnvironment, log: LogView, segment: Segment) -> Iterator[int]:
    end = min(segment.unverified, segment.size)
    limit = _limit(log, segment)
    indexes = _Indexes(segment, log.config.index_interval_bytes)
    bad: list[Damage] = []
    transactional = segment.has_transaction_index()
    yielded, last_offset = 0, segment.base_offset - 1
    dense = True
    file = segment.file
    fd = file.descriptor()
    for found in scan_with_damage(
        env.doors.files,
        fd,
        file.path,
        end,
        segment.base_offset,
        limit,
        log.epochs.epoch_for_offset,
        dense=not log.config.compacts and end == segment.size,
    ):
        if found is None:
            yield yielded
            continue
        if isinstance(found, Damage):
            bad.append(found)
            position = found.end
        else:
            indexes.note(found)
            transactional |= found.header.is_control
            dense &= found.header.base_offset == last_offset + 1
            last_offset = found.header.last_offset
            position = found.position + found.header.size
        if position - yielded >= SLICE_BYTES:
            yielded = position
            yield position
    if segment.unverified == 0:
        return  # it was truncated or rebuilt meanwhile
    whole = end == segment.size
    if whole and dense and last_offset + 1 < limit and not bad and not log.config.compacts:
        bad.append(Damage(end, end, f"offsets {last_offset + 1} to {limit - 1} are lost"))
    _note_damage(log, segment, bad)
    if not indexes.finish(end, last_offset, complete=whole) or bad:
        logger.warning("indexes do not fit their segment and are rebuilt", path=segment.file.path)
        segment.replace_indexes(bytes(indexes.offset_data), bytes(indexes.time_data), last_offset, end)
    if transactional and dense:  # after compaction only the index has the transactions
        yield from _check_transactions(env, log, segment, end, last_offset)
    segment.mark_verified()


def _limit(log: LogView, segment: Segment) -> int:
    following = [each.base_offset for each in log.segments if each.base_offset > segment.base_offset]
    return following[0] if following else log.log_end_offset


def _note_damage(log: LogView, segment: Segment, bad: list[Damage]) -> None:
    known = {damage.position for damage in segment.bad}
    lost = [damage for damage in segment.bad if damage.position == damage.end]
    segment.bad = bad + [damage for damage in lost if damage.position not in {each.end for each in bad}]
    for damage in bad:
        if damage.position not in known:
            logger.error(
                "damaged data is not served",
                partition=log.name,
                path=segment.file.path,
                position=damage.position,
                bytes=damage.end - damage.position,
                why=damage.why,
            )


def _check_transactions(
    env: LogEnvironment, log: LogView, segment: Segment, end: int, last_offset: int
) -> Iterator[int]:
    """Compare the transaction index with the markers, starting with the producers of the segment's snapshot. Yields as
    `verify`."""
    producers = ProducerStateManager(env.doors.files, log.directory, log.name, FOREVER)
    if env.doors.files.exists(producers.snapshot_path(segment.base_offset)):
        try:
            producers.load_snapshot(segment.base_offset, env.doors.clock.time_ms())
        except CorruptSnapshot:
            return
    elif segment is not log.segments[0]:
        return
    expected: list[AbortedTransaction] = []
    yielded = 0
    for batch in segment.good_batches(0, end):
        expected += _aborted_by(producers, batch)
        if batch.position - yielded >= SLICE_BYTES:
            yielded = batch.position
            yield yielded
    later: list[AbortedTransaction] = []
    if end < segment.size:  # this process has appended to the segment since
        later = [entry for entry in segment.aborted() if last_offset < entry.last_offset < log.log_end_offset]
    if list(segment.aborted()) != expected + later:
        logger.warning("transaction index does not fit its segment and is rebuilt", path=segment.txn_index.path)
        segment.replace_transactions(expected + later)


def _aborted_by(producers: ProducerStateManager, batch: ScannedBatch) -> Iterator[AbortedTransaction]:
    header = batch.header
    completed = producers.update(header, header.base_offset, batch.data) if header.producer_id >= 0 else None
    if completed is None:
        return
    if completed.aborted:
        stable = producers.stable_offset_after(completed)
        yield AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
    producers.complete(completed)


class Verifier(PartOfLog[LogView]):
    """Verifies the segments of one log."""

    def __init__(self, env: LogEnvironment, log: LogView) -> None:
        super().__init__(log)
        self._env = env
        self._running: dict[Segment, list[Callable[[], None]]] = {}
        self._tasks: dict[Segment, asyncio.Future[None]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a segment is being verified in slices."""
        return bool(self._running)

    def require(self, segment: Segment, on_verified: Callable[[], None] | None) -> bool:
        """Verify a segment. True if that is done. With ``on_verified``, a large segment is verified in the background:
        then the result is False, and ``on_verified`` is called afterwards. OSError."""
        if on_verified is not None and segment.unverified > AT_ONCE_BYTES and loop_runs():
            waiting = self._running.get(segment)
            if waiting is None:
                self._running[segment] = [on_verified]
                self._tasks[segment] = asyncio.ensure_future(self._verify_in_slices(self._log, segment))
            elif on_verified not in waiting:
                waiting.append(on_verified)
            return False
        for _ in verify(self._env, self._log, segment):
            pass
        return True

    def require_small(self, segment: Segment) -> None:
        """Verify a segment now, unless it is so large that this would block the event loop. OSError."""
        if 0 < segment.unverified <= LOOK_UP_BYTES:
            self.require(segment, None)

    async def _verify_in_slices(self, log: LogView, segment: Segment) -> None:
        doors = self._env.doors
        segment.file.retain()  # the cache must not close it during a read ahead
        try:
            ahead = 0
            for position in verify(self._env, log, segment):
                if position + SLICE_BYTES > ahead and segment.file.fd >= 0:
                    await doors.executor.run(doors.files.pread, segment.file.fd, 4 * SLICE_BYTES, ahead)
                    ahead += 4 * SLICE_BYTES
                else:
                    await asyncio.sleep(0)
        except OSError as error:
            self._env.on_failure(log.directory, error)
        finally:
            segment.file.release()
            del self._tasks[segment]
            for call in self._running.pop(segment, []):
                call()
