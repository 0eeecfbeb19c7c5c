"""Data found at start is verified once before it is served: `verify` walks one segment and notes what is bad in it.

What this process appends was verified on receipt. What a start finds in the files was not, unless recovery has read it:
the first read that touches such a segment has it verified, up to `Segment.unverified`. A stretch that fails is never
served; it is told once, with file and position, and the rest stays readable. The indexes are held against the batches
at the same time and built anew if they do not fit.

`Verifier` does this for one log: at once where little is to be looked at or somebody cannot wait, otherwise in pieces
between which the loop goes on, its bytes read on a thread. Cutting and quarantining at start is `recovery`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from kwire.log.common.append_info import AbortedTransaction
from kwire.log.common.environment import LogEnvironment, logger, loop_runs
from kwire.log.segment.batch_scan import ScannedBatch
from kwire.log.segment.damage import Damage, judge
from kwire.log.state.producer_snapshot import CorruptSnapshot
from kwire.log.state.producer_state import ProducerStateManager

if TYPE_CHECKING:
    from kwire.log.partition.partition_log import PartitionLog
    from kwire.log.segment.segment import Segment

SLICE_BYTES: Final = 256 * 1024
"""After so much the loop gets a turn."""

AT_ONCE_BYTES: Final = 256 * 1024
"""So much is verified while the reader waits: it costs less than a thread."""

LOOK_UP_BYTES: Final = 16 * 1024 * 1024
"""So much is verified while a look-up by time waits; of a larger segment the answer is what its headers say."""

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
FOREVER: Final = 1 << 62


class _Indexes:
    """What the indexes of a segment should be, and whether what they are fits."""

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
        """Whether the indexes fit the batches that end at position ``end`` with ``last_offset``; if these were all of
        the segment's, they must go up to its end, otherwise it has grown since and its indexes with it."""
        if complete:
            self._note_time()
        if self._next_offset is not None and (complete or self._next_offset[1] < end):
            return False
        if self._next_time is not None and (complete or self._next_time[1] <= last_offset - self._base_offset):
            return False
        return not complete or self._last_time_found == self.max_timestamp or self.max_timestamp < 0


def verify(env: LogEnvironment, log: PartitionLog, segment: Segment) -> Iterator[int]:
    """Verify what a start found in a segment; yields the position reached about every `SLICE_BYTES`. OSError."""
    segment.file.retain()
    try:
        yield from _verify(env, log, segment)
    finally:
        segment.file.release()


def _verify(env: LogEnvironment, log: PartitionLog, segment: Segment) -> Iterator[int]:
    end = min(segment.unverified, segment.size)
    limit = _limit(log, segment)
    indexes = _Indexes(segment, log.config.index_interval_bytes)
    bad: list[Damage] = []
    transactional = segment.has_transaction_index()
    told, last_offset = 0, segment.base_offset - 1
    dense = True
    file = segment.file
    fd = file.descriptor()
    for found in judge(
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
            yield told
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
        if position - told >= SLICE_BYTES:
            told = position
            yield position
    if segment.unverified == 0:
        return  # it was cut or rebuilt meanwhile
    whole = end == segment.size
    if whole and dense and last_offset + 1 < limit and not bad and not log.config.compacts:
        bad.append(Damage(end, end, f"offsets {last_offset + 1} to {limit - 1} are lost"))
    _note_damage(log, segment, bad)
    if not indexes.finish(end, last_offset, complete=whole) or bad:
        logger.warning("indexes do not fit their segment and are built anew", path=segment.file.path)
        segment.replace_indexes(bytes(indexes.offset_data), bytes(indexes.time_data), last_offset, end)
    if transactional and dense:  # of what was compacted away, the index alone knows
        yield from _check_transactions(env, log, segment, end, last_offset)
    segment.trust_all()


def _limit(log: PartitionLog, segment: Segment) -> int:
    following = [each.base_offset for each in log.segments if each.base_offset > segment.base_offset]
    return following[0] if following else log.log_end_offset


def _note_damage(log: PartitionLog, segment: Segment, bad: list[Damage]) -> None:
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
    env: LogEnvironment, log: PartitionLog, segment: Segment, end: int, last_offset: int
) -> Iterator[int]:
    """Hold the transaction index against the markers, with the producers as they were when the segment began. Yields
    the position reached, as `verify`."""
    producers = ProducerStateManager(env.doors.files, log.directory, log.name, FOREVER)
    if env.doors.files.exists(producers.snapshot_path(segment.base_offset)):
        try:
            producers.load_snapshot(segment.base_offset, env.doors.clock.time_ms())
        except CorruptSnapshot:
            return
    elif segment is not log.segments[0]:
        return
    due: list[AbortedTransaction] = []
    told = 0
    for batch in segment.good_batches(0, end):
        due += _aborted_by(producers, batch)
        if batch.position - told >= SLICE_BYTES:
            told = batch.position
            yield told
    later: list[AbortedTransaction] = []
    if end < segment.size:  # what this process has appended behind it, whether the segment is still active or not
        later = [entry for entry in segment.aborted() if last_offset < entry.last_offset < log.log_end_offset]
    if list(segment.aborted()) != due + later:
        logger.warning("transaction index does not fit its segment and is built anew", path=segment.txn_index.path)
        segment.replace_transactions(due + later)


def _aborted_by(producers: ProducerStateManager, batch: ScannedBatch) -> Iterator[AbortedTransaction]:
    header = batch.header
    completed = producers.update(header, header.base_offset, batch.data) if header.producer_id >= 0 else None
    if completed is None:
        return
    if completed.aborted:
        stable = producers.stable_offset_after(completed)
        yield AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
    producers.complete(completed)


class Verifier:
    """The segments of one log that are being verified between turns of the loop."""

    def __init__(self, env: LogEnvironment, log: PartitionLog) -> None:
        self._env = env
        self._log = log
        self._running: dict[Segment, list[Callable[[], None]]] = {}
        self._tasks: dict[Segment, asyncio.Future[None]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something is being verified in pieces."""
        return bool(self._running)

    def require(self, segment: Segment, on_verified: Callable[[], None] | None) -> bool:
        """Whether a segment is verified now. With ``on_verified``, that is called later if it takes its time; without,
        it is done here and now. OSError."""
        if on_verified is not None and segment.unverified > AT_ONCE_BYTES and loop_runs():
            waiting = self._running.get(segment)
            if waiting is None:
                self._running[segment] = [on_verified]
                self._tasks[segment] = asyncio.ensure_future(self._verify_in_pieces(segment))
            elif on_verified not in waiting:
                waiting.append(on_verified)
            return False
        for _ in verify(self._env, self._log, segment):
            pass
        return True

    def require_small(self, segment: Segment) -> None:
        """Verify a segment now unless that would hold up the loop. OSError."""
        if 0 < segment.unverified <= LOOK_UP_BYTES:
            self.require(segment, None)

    async def _verify_in_pieces(self, segment: Segment) -> None:
        doors = self._env.doors
        segment.file.retain()  # the cache must not close it under a read ahead
        try:
            ahead = 0
            for position in verify(self._env, self._log, segment):
                if position + SLICE_BYTES > ahead and segment.file.fd >= 0:
                    await doors.executor.run(doors.files.pread, segment.file.fd, 4 * SLICE_BYTES, ahead)
                    ahead += 4 * SLICE_BYTES
                else:
                    await asyncio.sleep(0)
        except OSError as error:
            self._env.on_failure(self._log.directory, error)
        finally:
            segment.file.release()
            del self._tasks[segment]
            for call in self._running.pop(segment, []):
                call()
