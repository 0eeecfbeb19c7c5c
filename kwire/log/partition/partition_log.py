"""One partition's log: segments in order, offsets, high watermark, producers and leader epochs.

Appending is one write at the tracked end, and reading returns file ranges; both are synchronous and never wait. What
may block (syncs) goes through the executor. Beside this module: `validator` (may a batch be appended, in which form),
`truncation` (removing records), `retention` (which segments to delete), `timestamps` (look-ups by time), `flusher`
(syncing), `opening` (a directory).

A sealed segment is synced while the next one is written, so appends do not wait for the disk. With `flush.messages` the
active segment itself is synced, and an append during that sync may take milliseconds.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from kwire.base.doors import Files
from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.base.file_range import FileRange
from kwire.codec.errors import CodecError
from kwire.codec.records import BatchHeader, patch_offsets
from kwire.codec.records.header import pack_offsets_into
from kwire.log.common import names
from kwire.log.common.append_info import (
    NO_DATA,
    AbortedTransaction,
    AppendInfo,
    FetchedData,
    Origin,
    TimestampAndOffset,
)
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import INT64_MAX, LogConfig
from kwire.log.partition import timestamps
from kwire.log.partition.flusher import Flusher
from kwire.log.partition.recompression import Recompression
from kwire.log.partition.truncation import LogTruncation
from kwire.log.partition.validator import Accepted, BatchValidator, writable
from kwire.log.recovery.recovery import RecoveredLog
from kwire.log.segment.batch_scan import CorruptLog
from kwire.log.segment.segment import Segment
from kwire.log.state.producer_state import NOT_REQUIRED, BatchMetadata, CompletedTransaction, VerificationGuard
from kwire.log.verification.verifier import Verifier

_NOT_APPENDED = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # until the batch's turn has come

Records = bytes | bytearray | memoryview
P = ParamSpec("P")
T = TypeVar("T")


class PartitionLog:
    """A log that is open. Offsets are those of records; all methods raise KafkaError only."""

    def __init__(
        self,
        env: LogEnvironment,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        recovered: RecoveredLog,
    ) -> None:
        self._env = env
        self._clock_ms = env.doors.clock.time_ms
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = recovered.directory
        self.name = names.directory_name(topic, partition)
        self.segments = recovered.segments
        self.bases = [segment.base_offset for segment in recovered.segments]
        self.active = recovered.segments[-1]
        self.epochs = recovered.epochs
        self.producer_state = recovered.producers
        self.log_start_offset = recovered.log_start_offset
        self.log_end_offset = recovered.log_end_offset
        self.high_watermark = recovered.log_start_offset
        self.flusher = Flusher(env, self, recovered.recovery_point, recovered.rebuilt)
        self.verifier = Verifier(env, self)
        self._truncation = LogTruncation(env, self)
        self.closed = False
        self.truncated_to = INT64_MAX  # the lowest offset the log was truncated to since the cleaner last looked
        self.latest_epoch = self.epochs.latest_epoch
        self.update_config(config)

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def files(self) -> Files:
        """The file operations of this log's broker."""
        return self._env.doors.files

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on stable storage."""
        return self.flusher.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """Below this offset every transaction has ended: read_committed consumers read up to here."""
        unstable = self.producer_state.first_unstable_offset
        return unstable if 0 <= unstable < self.high_watermark else self.high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Take new settings of the topic."""
        self.config = config
        self._validator = BatchValidator(config, self.name, self._clock_ms)
        self._index_interval = config.index_interval_bytes
        self._segment_bytes = config.max_segment_bytes
        self._index_entries = config.segment_index_bytes // 8
        self._flush_messages = config.flush_messages
        self._draw_roll_age()

    def _draw_roll_age(self) -> None:
        jitter = self.config.segment_jitter_ms
        jitter = self._env.doors.random.randrange(min(jitter, self.config.segment_ms)) if jitter > 0 else 0
        self._roll_age_ms = self.config.roll_ms - jitter

    # -- appending -----------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Records,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = NOT_REQUIRED,
    ) -> AppendInfo:
        """Append the batches of a coordinator, or the one batch of a client, and assign offsets.

        ``records`` is patched in place if it is writable, else copied. KafkaError, after which nothing is appended: the
        codes of `BatchValidator.accept` and `ProducerStateManager.check`, and KAFKA_STORAGE_ERROR.
        """
        if origin is not Origin.CLIENT:
            return self._flushed_if_due(self._append_internal(records, leader_epoch, origin))
        header, data, append_time_ms = self._validator.accept(records)
        if header.producer_id >= 0:
            duplicate = self.producer_state.check(header, origin, guard)
            if duplicate is not None:
                return self._duplicate(duplicate, leader_epoch)
        first = self.log_end_offset
        last = first + header.last_offset_delta
        pack_offsets_into(data, 0, first, header.length, leader_epoch)
        if leader_epoch != self.latest_epoch:
            self._note_epoch(leader_epoch, first)
        self._write(data, header.length + 12, last, header.max_timestamp)
        return self._appended(header, data, append_time_ms, first, leader_epoch)

    def append_together(self, batches: list[memoryview], *, leader_epoch: int) -> list[AppendInfo | Exception]:
        """Append the batches of several clients, one each, as `append_as_leader` does one after the other, but with one
        write as far as possible. Of each its outcome, or the error for which it alone was not appended. If a write
        fails, all batches in it get its error."""
        results: list[AppendInfo | Exception] = []
        group: list[tuple[int, Accepted]] = []  # the place of its result, and the batch
        producers: dict[int, BatchHeader] = {}  # the last batch of each in the group
        for records in batches:
            try:
                accepted = self._validator.accept(records)
                header = accepted.header
                producer_id = header.producer_id
                if producer_id >= 0:
                    before = producers.get(producer_id)
                    if before is not None and not header.continues(before):  # it is checked against the one before
                        self._append_group(group, leader_epoch, results)
                        group, producers, before = [], {}, None
                    duplicate = self.producer_state.check(header, Origin.CLIENT) if before is None else None
                    if duplicate is not None:
                        results.append(self._duplicate(duplicate, leader_epoch))
                        continue
                    producers[producer_id] = header
            except Exception as error:
                results.append(as_value(error))
                continue
            group.append((len(results), accepted))
            results.append(_NOT_APPENDED)
        if group:
            self._append_group(group, leader_epoch, results)
        return results

    def _append_group(
        self, group: list[tuple[int, Accepted]], leader_epoch: int, results: list[AppendInfo | Exception]
    ) -> None:
        """Append checked batches with one write, or one by one up to the first failure if the log has to roll."""
        parts, size, offset, latest = [], 0, self.log_end_offset, -1
        for _, (header, part, _) in group:
            pack_offsets_into(part, 0, offset, header.length, leader_epoch)
            offset += header.last_offset_delta + 1
            if header.max_timestamp > latest:  # noqa: PLR1730 (max() costs twice as much)
                latest = header.max_timestamp
            parts.append(part)
            size += header.length + 12
        try:
            if leader_epoch != self.latest_epoch:
                self._note_epoch(leader_epoch, self.log_end_offset)
            if self._must_roll(size, offset - 1, latest, len(group)):
                if len(group) > 1:
                    for at, (place, _) in enumerate(group):
                        self._append_group(group[at : at + 1], leader_epoch, results)
                        if isinstance(failure := results[place], Exception):
                            raise failure
                    return
                self.roll()
            self.active.write(parts, size)
        except (KafkaError, OSError) as error:
            failure = self._env.failure(self.directory, error) if isinstance(error, OSError) else error
            for place, _ in group:
                if results[place] is _NOT_APPENDED:
                    results[place] = failure
            return
        self._group_appended(group, leader_epoch, results)

    def _group_appended(
        self, group: list[tuple[int, Accepted]], leader_epoch: int, results: list[AppendInfo | Exception]
    ) -> None:
        """`_appended` for the batches of one write."""
        segment, producers, interval = self.active, self.producer_state, self._index_interval
        start, first, position = self.log_start_offset, self.log_end_offset, segment.size
        note_batch, recovery_point = segment.note_batch, self.flusher.recovery_point
        for place, (header, data, append_time_ms) in group:
            last, latest, size = first + header.last_offset_delta, header.max_timestamp, header.length + 12
            note_batch(first, last, latest, position, size, interval)
            if header.producer_id >= 0:
                producers.update(header, first, data)  # nothing has completed: these are no markers
            info = results[place] = AppendInfo(first, last, start, leader_epoch, size, append_time_ms, latest)
            first = self.log_end_offset = producers.map_end_offset = last + 1
            position += size
            if first - recovery_point >= self._flush_messages:
                info.flushed = self.flusher.flush()

    def _appended(
        self, header: BatchHeader, data: Records, append_time_ms: int, first: int, leader_epoch: int
    ) -> AppendInfo:
        """Account for a batch that was written at the end."""
        last, latest, size = first + header.last_offset_delta, header.max_timestamp, header.length + 12
        self._commit(header, data, first, last, self.active.size)
        info = AppendInfo(first, last, self.log_start_offset, leader_epoch, size, append_time_ms, latest)
        if last + 1 - self.flusher.recovery_point >= self._flush_messages:  # inline: every append comes here
            info.flushed = self.flusher.flush()
        return info

    def recompression(self, records: memoryview) -> Recompression | None:
        """What has to be done with a client's batch that has to be compressed anew before it is appended."""
        if not self._validator.recompresses(records):
            return None
        return Recompression(records, self.config, self.name, self._clock_ms())

    def _flushed_if_due(self, info: AppendInfo) -> AppendInfo:
        """Add the sync that the response has to wait for (`flush.messages`)."""
        info.flushed = self.flush_if_due(info.last_offset + 1)
        return info

    def begin_leader_epoch(self, epoch: int) -> None:
        """This broker leads the partition now, in this leader epoch."""
        if epoch > self.latest_epoch:
            self.epochs.assign(epoch, self.log_end_offset)
            if not self.epochs.dirty:  # otherwise the first append writes the file, or fails
                self.latest_epoch = epoch

    def _note_epoch(self, epoch: int, first: int) -> None:
        """Write the leader epoch file before the first batch of an epoch, so that recovery can compare the batches with
        it. KafkaError(KAFKA_STORAGE_ERROR)."""
        self.epochs.assign(epoch, first)
        if self.epochs.dirty:
            try:
                self.epochs.write()
            except OSError as error:
                raise self._env.failure(self.directory, error) from error
        self.latest_epoch = epoch

    def _duplicate(self, batch: BatchMetadata, leader_epoch: int) -> AppendInfo:
        offsets = batch.first_offset, batch.last_offset
        info = AppendInfo.of_duplicate(*offsets, self.log_start_offset, leader_epoch, batch.timestamp)
        return self._flushed_if_due(info)  # its first append may never have been acknowledged

    def _append_internal(self, records: Records, leader_epoch: int, origin: Origin) -> AppendInfo:
        headers = self._validator.accept_internal(records)
        data = writable(records)
        position, offset, headers_with_offsets = 0, self.log_end_offset, []
        for header in headers:
            self._check_producer(header, memoryview(data)[position:], origin)
            patch_offsets(data, position, offset, leader_epoch)
            headers_with_offsets.append(header._replace(base_offset=offset, partition_leader_epoch=leader_epoch))
            position += header.size
            offset += header.last_offset_delta + 1
        return self._append_with_offsets(data, headers_with_offsets)

    def _check_producer(self, header: BatchHeader, data: memoryview, origin: Origin) -> None:
        if header.is_control:
            self.producer_state.check_marker(header, data)
        elif header.producer_id >= 0:
            self.producer_state.check(header, origin)

    def append_as_follower(self, records: Records) -> AppendInfo:
        """Append batches of the leader, with their offsets and leader epochs. KafkaError: CORRUPT_MESSAGE,
        OFFSET_OUT_OF_RANGE if they begin before the end of this log, KAFKA_STORAGE_ERROR."""
        headers = self._validator.accept_replicated(records, self.log_end_offset)
        return self._append_with_offsets(records, headers)

    def _append_with_offsets(self, data: Records, headers: list[BatchHeader]) -> AppendInfo:
        """Append batches with final offsets: with one write, or one by one if the log may roll or a leader epoch begins
        between them."""
        if not headers:
            return AppendInfo(-1, -1, self.log_start_offset, self.latest_epoch, 0)
        view, size, last = memoryview(data), sum(header.size for header in headers), headers[-1].last_offset
        latest = max(header.max_timestamp for header in headers)
        epochs = {header.partition_leader_epoch for header in headers}
        are_written = epochs == {self.latest_epoch} and self._write(view[:size], size, last, latest, len(headers))
        position = 0
        for header in headers:
            end, batch_last = position + header.size, header.last_offset
            part = view[position:end]
            if not are_written:
                if header.partition_leader_epoch != self.latest_epoch:
                    self._note_epoch(header.partition_leader_epoch, header.base_offset)
                self._write(part, end - position, batch_last, header.max_timestamp)
            self._commit(header, part, header.base_offset, batch_last, self.active.size)
            position = end
        first, epoch = headers[0].base_offset, headers[-1].partition_leader_epoch
        return AppendInfo(first, last, self.log_start_offset, epoch, size, max_timestamp_ms=latest)

    def _write(self, data: Records, size: int, last: int, max_timestamp: int, batches: int = 1) -> bool:
        """Write at the end; roll before if it is time. Several batches are not written if it may be time between them:
        False. KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            if self._must_roll(size, last, max_timestamp, batches):
                if batches > 1:
                    return False
                self.roll()
            self.active.write((data,), size)
        except OSError as error:
            raise self._env.failure(self.directory, error) from error
        return True

    def _must_roll(self, size: int, last: int, max_timestamp: int, batches: int = 1) -> bool:
        """Whether so many bytes up to an offset belong into a new segment. OSError."""
        segment = self.active
        return segment.must_roll(size, last, self._segment_bytes, self._index_entries, batches) or bool(
            segment.size and segment.age_ms(self._clock_ms, max_timestamp) > self._roll_age_ms
        )

    def _commit(self, header: BatchHeader, data: Records, first: int, last: int, position: int) -> None:
        """Account for a batch that was written to the file."""
        self.active.note_batch(first, last, header.max_timestamp, position, header.length + 12, self._index_interval)
        self.log_end_offset = last + 1
        producers = self.producer_state
        if header.producer_id >= 0:
            completed = producers.update(header, first, data)
            if completed is not None:
                self._complete(completed)
        producers.map_end_offset = last + 1

    def _complete(self, completed: CompletedTransaction) -> None:
        if completed.aborted:
            stable = self.producer_state.stable_offset_after(completed)
            self.active.note_aborted(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )
        self.producer_state.complete(completed)

    def roll(self) -> None:
        """Begin a new segment; the old one is sealed, and synced in the background. OSError."""
        old, base_offset = self.active, self.log_end_offset
        if old.size == 0 and old.base_offset == base_offset:
            return
        new = Segment(self._env.cache, self.directory, base_offset, 0, self._clock_ms(), new=True)
        try:
            new.create_files()
            old.seal()
            self.producer_state.map_end_offset = base_offset
            self.producer_state.take_snapshot()
        except OSError:
            new.discard()  # appends continue in the old one
            raise
        self.segments.append(new)
        self.bases.append(base_offset)
        self.active = new
        self._draw_roll_age()
        self.flusher.sealed(old, base_offset)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upto: int,
        min_one: bool = True,
        on_verified: Callable[[], None] | None = None,
    ) -> FetchedData:
        """Read about ``max_bytes`` of batches below offset ``upto``, from the batch that holds ``offset``.

        With ``min_one`` the first batch is complete even if it is larger; the last one may be incomplete, as in Kafka.
        What was found on disk at start is verified before it is served: now, or with ``on_verified`` in the background.
        Then the result is empty, and ``on_verified`` is called when the data can be read.
        KafkaError: OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise self._out_of_range(offset)
        if offset >= upto or offset == end_offset:
            return NO_DATA
        try:
            segment = self.active
            if offset >= segment.base_offset:
                if segment.unverified and not self._is_verified(segment, offset, on_verified):
                    return NO_DATA
                end = segment.size if upto >= end_offset else segment.position_before(upto)
                return segment.read(offset, max_bytes, end, min_one) or NO_DATA
            return self._read_sealed(offset, max_bytes, upto, min_one, on_verified)
        except OSError as error:
            raise self._env.failure(self.directory, error) from error
        except CorruptLog as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {self.name} is damaged: {error}") from error

    def _is_verified(self, segment: Segment, offset: int, on_verified: Callable[[], None] | None) -> bool:
        return segment.is_new(offset) or self.verifier.require(segment, on_verified)

    def _read_sealed(
        self, offset: int, max_bytes: int, upto: int, min_one: bool, on_verified: Callable[[], None] | None
    ) -> FetchedData:
        at = bisect_right(self.bases, offset) - 1
        for i in range(max(at, 0), len(self.segments)):
            segment = self.segments[i]
            if segment.unverified and not self._is_verified(segment, offset, on_verified):
                return NO_DATA
            following = self.bases[i + 1] if i + 1 < len(self.bases) else self.log_end_offset
            end = segment.size if upto >= following else segment.position_before(upto)
            found = segment.read(offset, max_bytes, end, min_one)
            if found is not None:
                return found
        return NO_DATA

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset} for partition {self.name}, but we only have log segments from "
            f"offset {self.log_start_offset} up to {self.log_end_offset}.",
        )

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from ``first_offset`` to below ``end_offset``."""
        found: list[AbortedTransaction] = []
        for segment in self.segments[max(bisect_right(self.bases, first_offset) - 1, 0) :]:
            for entry in segment.aborted():
                if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    def offset_beyond(self, offset: int, size: int) -> int:
        """An offset that a read of ``size`` bytes from ``offset`` on does not reach. KafkaError."""
        at = max(bisect_right(self.bases, offset) - 1, 0)
        following = self.bases[at + 1] if at + 1 < len(self.bases) else self.log_end_offset
        found = self._look_up(self.segments[at].offset_beyond, offset, size)
        return max(following if found is None else found, offset + 1)

    # -- offsets -------------------------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark forward to an offset, at most to the log end offset. Whether it moved."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_state.on_high_watermark(offset)
        return True

    def offset_for_timestamp(self, timestamp_ms: int, *, upto: int) -> TimestampAndOffset | None:
        """The first record at or after a timestamp, if it lies below offset ``upto``; else None. KafkaError."""
        return self._look_up(timestamps.offset_for_timestamp, self, self.verifier, timestamp_ms, upto)

    def look_up_pieces(self, timestamp_ms: int | None) -> Iterator[str | FileRange]:
        """What a look-up by time would read: see `timestamps.pieces`. OSError."""
        return timestamps.pieces(self, timestamp_ms)

    def max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the highest timestamp; None in a log without timestamps. KafkaError."""
        return self._look_up(timestamps.max_timestamp, self, self.verifier)

    def _look_up(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads segments; its errors become KafkaError."""
        try:
            return function(*args, **kwargs)
        except OSError as error:
            raise self._env.failure(self.directory, error) from error
        except (CorruptLog, CodecError) as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {self.name} is damaged: {error}") from error

    def earliest(self) -> TimestampAndOffset:
        """The log start offset and its leader epoch."""
        return TimestampAndOffset(-1, self.log_start_offset, self.epochs.epoch_for_offset(self.log_start_offset))

    def earliest_local(self) -> TimestampAndOffset:
        """The earliest offset on this disk: the log start offset, as there is no tiered storage."""
        return self.earliest()

    def latest_tiered(self) -> TimestampAndOffset:
        """The last offset in tiered storage: none."""
        return TimestampAndOffset(-1, -1, -1)

    def latest(self, upto: int) -> TimestampAndOffset:
        """The end of the log for a reader that sees it up to offset ``upto``, with the newest leader epoch."""
        return TimestampAndOffset(-1, upto, self.epochs.latest_epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest leader epoch not above the requested one; (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # -- removing ------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def delete_records_before(self, offset: int) -> int:
        """Delete the records below an offset (DeleteRecords); -1 means the high watermark. Their segments are deleted
        by the next retention pass, as in Kafka. Returns the new log start offset. KafkaError: OFFSET_OUT_OF_RANGE above
        the high watermark."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} since it is larger than "
                f"the high watermark {self.high_watermark}",
            )
        self.advance_log_start_offset(target)
        return self.log_start_offset

    def advance_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset forward: records below it are no longer part of the log. Whether it moved."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.epochs.truncate_from_start(offset)
        self.producer_state.on_log_start_offset(offset)
        return True

    def delete_old_segments(self, limit: int = INT64_MAX) -> int:
        """Apply retention: remove at most ``limit`` segments. Returns how many. KafkaError(KAFKA_STORAGE_ERROR)."""
        return self._truncation.delete_old_segments(limit)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from an offset on. KafkaError(KAFKA_STORAGE_ERROR)."""
        self._truncation.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record gets this offset. KafkaError(KAFKA_STORAGE_ERROR)."""
        self._truncation.truncate_fully_and_start_at(offset)

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Compaction: put one segment in the place of neighbours, whose files have been renamed already."""
        new.mark_verified()  # the cleaner has checked every batch
        at = self.segments.index(old[0])
        self.segments[at : at + len(old)] = [new]
        self.bases[at : at + len(old)] = [new.base_offset]

    # -- flushing and closing ------------------------------------------------------------------------------------------

    def flush_if_due(self, end: int = -1) -> asyncio.Future[None] | None:
        """Start the sync that `flush.messages` requires below offset ``end`` (by default of everything); None if none
        is due. Appends as leader do this themselves."""
        if (end if end >= 0 else self.log_end_offset) - self.flusher.recovery_point < self._flush_messages:
            return None
        return self.flusher.flush()

    def flush(self) -> asyncio.Future[None] | None:
        """Sync everything appended so far, off the loop; None if everything is synced."""
        return self.flusher.flush()

    def close(self) -> None:
        """Complete the indexes, sync, write a snapshot of the producers. Blocks if something is unsynced, so await
        `flush` before. Closing twice is harmless. KafkaError(KAFKA_STORAGE_ERROR)."""
        if self.closed:
            return
        self.closed = True
        try:
            self.flusher.flush_blocking()
            self.producer_state.map_end_offset = self.log_end_offset
            self.producer_state.take_snapshot()
            self.release()
        except OSError as error:
            raise self._env.failure(self.directory, error) from error

    def release(self) -> None:
        """Close all files without a sync: of a log that is being deleted, or whose directory has failed."""
        self.closed = True
        for segment in self.segments:
            segment.file.close()
