"""One partition's log: segments in order, offsets, high watermark, producers and epochs.

Appending is one write at the tracked end and reading hands out file ranges; both are synchronous and never wait. What
may block (syncs) goes through the executor. What takes records away again is `log_cutting`, its base class. What
decides about whole segments lives beside this file: `retention` (deleting), `timestamps` (look-ups by time), `flusher`
(syncing), `recovery` (opening), `validator` (judging batches).

While one segment is being synced another one is written, so the loop does not wait for the disk; with `flush.messages`
the active segment itself is synced, and an append beside that sync may take milliseconds.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

from kwire.base.doors import Files
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.errors import CodecError
from kwire.codec.records import BatchHeader, parse_header, patch_offsets
from kwire.log.common import names
from kwire.log.common.append_info import (
    NO_DATA,
    AbortedTransaction,
    AppendInfo,
    FetchedData,
    Origin,
    TimestampAndOffset,
)
from kwire.log.common.checkpoints import read_topic_id, write_topic_id
from kwire.log.common.environment import LogEnvironment, StorageError, logger
from kwire.log.common.log_config import INT64_MAX, LogConfig
from kwire.log.partition import timestamps, validator
from kwire.log.partition.flusher import Flusher
from kwire.log.partition.truncation import LogCutting
from kwire.log.recovery.helpers import Recovered
from kwire.log.recovery.recovery import LogRecovery, Progress, no_progress
from kwire.log.segment.batch_scan import CorruptLog
from kwire.log.segment.segment import Segment
from kwire.log.state.producer_state import NOT_ASKED, BatchMetadata, CompletedTransaction, Verification
from kwire.log.verification.verifier import Verifier

Records = bytes | bytearray | memoryview
T = TypeVar("T")


class PartitionLog(LogCutting):
    """A log that is open. Offsets are those of records; all methods raise KafkaError only."""

    def __init__(
        self, env: LogEnvironment, topic: str, partition: int, topic_id: bytes, config: LogConfig, opened: LogRecovery
    ) -> None:
        self._env = env
        self._clock_ms = env.doors.clock.time_ms
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = opened.directory
        self.name = names.directory_name(topic, partition)
        self.segments = opened.segments
        self._bases = [segment.base_offset for segment in opened.segments]
        self.active = opened.segments[-1]
        self.epochs = opened.epochs
        self.producer_state = opened.producers
        self.log_start_offset = opened.log_start_offset
        self.log_end_offset = opened.log_end_offset
        self.high_watermark = opened.log_start_offset
        self.flusher = Flusher(env, self, opened.recovery_point, opened.rebuilt)
        self.verifier = Verifier(env, self)
        self.closed = False
        self.cut_to = INT64_MAX  # the lowest offset the log was truncated to since the cleaner last asked
        self._latest_epoch = self.epochs.latest_epoch
        self.config = config
        self.update_config(config)

    @classmethod
    def open(
        cls,
        env: LogEnvironment,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        *,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        cleaned_to: int = 0,
        progress: Progress = no_progress,
        recovered: Recovered | None = None,
    ) -> PartitionLog:
        """Open a partition's directory, making it if it is new. After an unclean stop (``clean=False``) the tail from
        the recovery point on is checked, unless a helper process has done so. KafkaError(KAFKA_STORAGE_ERROR)."""
        files = env.doors.files
        if recovered is not None:
            clean, recovery_point = True, recovered.log_end_offset
            log_start_offset = recovered.log_start_offset
        try:
            is_new = not files.exists(directory)
            if is_new:
                files.makedirs(directory)
            if topic_id != bytes(16) and (is_new or read_topic_id(files, directory) is None):
                write_topic_id(files, directory, topic_id)
            recovery = LogRecovery(
                env,
                directory,
                names.directory_name(topic, partition),
                config,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                cleaned_to=cleaned_to,
                progress=progress,
            )
            opened = recovery.begin() if is_new else recovery.run()
            if recovered is not None:
                recovered.apply(opened)
        except OSError as error:
            env.on_failure(directory, error)
            raise StorageError(directory, error) from error
        for complaint in opened.complaints:
            logger.warning("log repaired", partition=names.directory_name(topic, partition), what=complaint)
        log = cls(env, topic, partition, topic_id, config, opened)
        log.advance_high_watermark(high_watermark)
        return log

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def files(self) -> Files:
        return self._env.doors.files

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on stable storage."""
        return self.flusher.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """Below this every transaction has ended and is committed: what read_committed consumers may see."""
        unstable = self.producer_state.first_unstable_offset
        return unstable if 0 <= unstable < self.high_watermark else self.high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Settings changed while running."""
        self.config = config
        self._index_interval = config.index_interval_bytes
        self._segment_bytes = config.max_segment_bytes
        self._index_entries = config.segment_index_bytes // 8
        self._plain = not validator.looks_at_records(config)
        self._ordinary = self._plain and not config.uses_log_append_time
        self._batch_max = min(config.max_message_bytes, config.max_segment_bytes)
        self._ahead_ms = config.message_timestamp_after_max_ms
        self._draw_roll_age()
        self._flush_messages = config.flush_messages

    def _draw_roll_age(self) -> None:
        jitter = self.config.segment_jitter_ms
        jitter = self._env.doors.random.randrange(min(jitter, self.config.segment_ms)) if jitter > 0 else 0
        self._roll_age_ms = self.config.roll_ms - jitter

    # Appending

    def append_as_leader(
        self,
        records: Records,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = NOT_ASKED,
    ) -> AppendInfo:
        """Append what a client or a coordinator sends, giving it offsets. A client sends exactly one batch.

        ``records`` is patched in place if it can be written, copied otherwise. Raises KafkaError: the codes of
        `validator`, those of `ProducerStateManager.check`, KAFKA_STORAGE_ERROR. Nothing is appended then.
        """
        if origin is not Origin.CLIENT:
            return self._flushed_if_due(self._append_trusted(records, leader_epoch, origin))
        header, data, append_time = self._glance(records) or self._judge(records)
        if header.producer_id >= 0:
            duplicate = self.producer_state.check(header, origin, verification)
            if duplicate is not None:
                return self._duplicate(duplicate, leader_epoch)
        size = header.length + 12
        first = self.log_end_offset
        last = first + header.last_offset_delta
        if len(data) != size:
            data = memoryview(data)[:size]  # a cut-off batch behind the whole one
        patch_offsets(data, 0, first, leader_epoch)
        if leader_epoch != self._latest_epoch:
            self._note_epoch(leader_epoch, first)
        self._write(data, size, last, header.max_timestamp)
        self._commit(header, data, first, last, self.active.size)
        info = AppendInfo(
            first,
            last,
            self.log_start_offset,
            leader_epoch,
            size,
            log_append_time_ms=append_time,
            max_timestamp_ms=header.max_timestamp,
        )
        return self._flushed_if_due(info)

    def _flushed_if_due(self, info: AppendInfo) -> AppendInfo:
        """With the sync that an answer has to wait for (`flush.messages`), be it for a client or a coordinator."""
        info.flushed = self.flush_if_due(info.last_offset + 1)
        return info

    def begin_leader_epoch(self, epoch: int) -> None:
        """This broker leads the partition from now on: what is appended next belongs to ``epoch``."""
        if epoch > self._latest_epoch:
            self.epochs.assign(epoch, self.log_end_offset)
            if not self.epochs.dirty:  # else the first append writes it, or fails
                self._latest_epoch = epoch

    def _note_epoch(self, epoch: int, first: int) -> None:
        """The epoch file knows an epoch before its first batch is written, so that recovery can hold the batches
        against it. KAFKA_STORAGE_ERROR."""
        self.epochs.assign(epoch, first)
        if self.epochs.dirty:
            try:
                self.epochs.write()
            except OSError as error:
                raise self._failed(error) from error
        self._latest_epoch = epoch

    def _glance(self, records: Records) -> tuple[BatchHeader, bytearray | memoryview, int] | None:
        """`_judge` for an ordinary batch and a topic of ordinary settings; None for all others."""
        if not self._ordinary or not isinstance(records, memoryview) or records.readonly:
            return None
        header = validator.at_a_glance(records, self._batch_max, self._clock_ms() + self._ahead_ms)
        return None if header is None else (header, records, -1)

    def _judge(self, records: Records) -> tuple[BatchHeader, bytearray | memoryview, int]:
        """Validate a client's batch and bring it into the topic's form: its header, its writable bytes, and the
        broker's time if that was stamped on it (else -1)."""
        config = self.config
        header = validator.client_batch(records, config, self.name)
        now_ms = self._clock_ms()
        data = _writable(records)
        if not self._plain or validator.has_doubtful_time(header, config, now_ms):
            header, data = self._judge_records(header, data, now_ms)
        if config.uses_log_append_time:
            return validator.stamp(data, now_ms), data, now_ms
        return header, data, -1

    def _judge_records(
        self, header: BatchHeader, data: bytearray | memoryview, now_ms: int
    ) -> tuple[BatchHeader, bytearray | memoryview]:
        """The slow way, through the records, where the header does not tell enough."""
        config = self.config
        doubtful = validator.has_doubtful_time(header, config, now_ms)
        if not doubtful and not validator.needs_walk(header, config):
            return header, data
        walked = validator.walk(data, config, now_ms, self.name)
        if config.target_codec not in (None, header.compression):
            data = validator.recompress(data, header, walked, config)
            validator.check_size(len(data), config, self.name)
            return parse_header(data), data
        return validator.set_right(data, header, walked), data

    def _duplicate(self, batch: BatchMetadata, leader_epoch: int) -> AppendInfo:
        info = AppendInfo(
            batch.first_offset,
            batch.last_offset,
            self.log_start_offset,
            leader_epoch,
            0,
            log_append_time_ms=batch.timestamp,
            max_timestamp_ms=batch.timestamp,
            duplicate=True,
        )
        return self._flushed_if_due(info)  # its first answer may have been held back for good

    def _append_trusted(self, records: Records, leader_epoch: int, origin: Origin) -> AppendInfo:
        headers = validator.trusted_batches(records, self.config, self.name, check_sizes=True)
        data = _writable(records)
        position, offset, given = 0, self.log_end_offset, []
        for header in headers:
            self._check_producer(header, memoryview(data)[position:], origin)
            patch_offsets(data, position, offset, leader_epoch)
            given.append(header._replace(base_offset=offset, partition_leader_epoch=leader_epoch))
            position += header.size
            offset += header.last_offset_delta + 1
        return self._append_given(data, given)

    def _check_producer(self, header: BatchHeader, data: memoryview, origin: Origin) -> None:
        if header.is_control:
            self.producer_state.check_marker(header, data)
        elif header.producer_id >= 0:
            self.producer_state.check(header, origin)

    def append_as_follower(self, records: Records) -> AppendInfo:
        """Append what the leader sent, offsets and epochs as they are. KafkaError: CORRUPT_MESSAGE,
        OFFSET_OUT_OF_RANGE if it does not follow the end of this log, KAFKA_STORAGE_ERROR."""
        headers = validator.trusted_batches(records, self.config, self.name, check_sizes=False)
        expected = self.log_end_offset
        for header in headers:
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"Offset {header.base_offset} is not beyond {expected - 1} in {self}"
                )
            expected = header.next_offset
        return self._append_given(records, headers)

    def _append_given(self, data: Records, headers: list[BatchHeader]) -> AppendInfo:
        """Append batches whose offsets are final, batch by batch so that each finds its segment."""
        if not headers:
            return AppendInfo(-1, -1, self.log_start_offset, self._latest_epoch, 0)
        position = 0
        view = memoryview(data)
        for header in headers:
            part = view[position : position + header.size]
            if header.partition_leader_epoch != self._latest_epoch:
                self._note_epoch(header.partition_leader_epoch, header.base_offset)
            self._write(part, header.size, header.last_offset, header.max_timestamp)
            self._commit(header, part, header.base_offset, header.last_offset, self.active.size)
            position += header.size
        return AppendInfo(
            headers[0].base_offset,
            headers[-1].last_offset,
            self.log_start_offset,
            headers[-1].partition_leader_epoch,
            position,
            max_timestamp_ms=max(header.max_timestamp for header in headers),
        )

    def _write(self, data: Records, size: int, last: int, max_timestamp: int) -> None:
        """Put a batch at the end of the active segment, after rolling if it is time. KAFKA_STORAGE_ERROR."""
        segment = self.active
        try:
            if segment.must_roll(size, last, self._segment_bytes, self._index_entries) or (
                segment.size and segment.age_ms(self._clock_ms, max_timestamp) > self._roll_age_ms
            ):
                self.roll()
                segment = self.active
            segment.write(data)
        except OSError as error:
            raise self._failed(error) from error

    def _commit(self, header: BatchHeader, data: Records, first: int, last: int, position: int) -> None:
        """The bytes are in the file: account for them."""
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
        """Begin a new segment at the end; the old one is completed and synced in the background. OSError."""
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
            new.discard()  # it must not lie there while the old one goes on
            raise
        self.segments.append(new)
        self._bases.append(base_offset)
        self.active = new
        self._draw_roll_age()
        self.flusher.sealed(old, base_offset)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upto: int,
        min_one: bool = True,
        on_verified: Callable[[], None] | None = None,
    ) -> FetchedData:
        """Batches from the one that holds ``offset``, all below offset ``upto``, about ``max_bytes``.

        The first batch comes whole even if it is larger (with ``min_one``); the last one may be cut off, as in Kafka.
        What a start found on disk is verified before it is served: here and now, or in the background if the caller
        gives ``on_verified``, who then gets nothing and is called when it is time to ask again.
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
            raise self._failed(error) from error
        except CorruptLog as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {self.name} is damaged: {error}") from error

    def _is_verified(self, segment: Segment, offset: int, on_verified: Callable[[], None] | None) -> bool:
        return segment.is_new(offset) or self.verifier.require(segment, on_verified)

    def _read_sealed(
        self, offset: int, max_bytes: int, upto: int, min_one: bool, on_verified: Callable[[], None] | None
    ) -> FetchedData:
        at = bisect_right(self._bases, offset) - 1
        for i in range(max(at, 0), len(self.segments)):
            segment = self.segments[i]
            if segment.unverified and not self._is_verified(segment, offset, on_verified):
                return NO_DATA
            following = self._bases[i + 1] if i + 1 < len(self._bases) else self.log_end_offset
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

    def segment_of(self, offset: int) -> Segment:
        """The segment in which an offset lies, or would."""
        return self.segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch offsets from ``first_offset`` to below ``end_offset``."""
        found: list[AbortedTransaction] = []
        for segment in self.segments[max(bisect_right(self._bases, first_offset) - 1, 0) :]:
            for entry in segment.aborted():
                if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    def offset_beyond(self, offset: int, size: int) -> int:
        """An offset that ``size`` bytes read from an offset on do not reach. KafkaError."""
        at = max(bisect_right(self._bases, offset) - 1, 0)
        following = self._bases[at + 1] if at + 1 < len(self._bases) else self.log_end_offset
        found: int | None = self._looking_up(lambda log: log.segments[at].offset_beyond(offset, size))
        return max(following if found is None else found, offset + 1)

    # Offsets

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to an offset (never beyond the end, never back). Whether it moved."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_state.on_high_watermark(offset)
        return True

    def offset_for_timestamp(self, timestamp_ms: int, *, upto: int) -> TimestampAndOffset | None:
        """The first record, below offset ``upto``, at or after a time; None if there is none. KafkaError."""
        return self._looking_up(timestamps.offset_for_timestamp, timestamp_ms, upto)

    def max_timestamp(self) -> TimestampAndOffset | None:
        """The record with the highest timestamp; None in a log without timestamps. KafkaError."""
        return self._looking_up(timestamps.max_timestamp)

    def _looking_up(self, look_up: Callable[..., T], *what: int) -> T:
        try:
            return look_up(self, *what)
        except OSError as error:
            raise self._failed(error) from error
        except (CorruptLog, CodecError) as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {self.name} is damaged: {error}") from error

    def earliest(self) -> TimestampAndOffset:
        """Where the log starts, and the leader epoch in force there."""
        return TimestampAndOffset(-1, self.log_start_offset, self.epochs.epoch_for_offset(self.log_start_offset))

    def earliest_local(self) -> TimestampAndOffset:
        """The earliest offset on this disk: as nothing is tiered, that is `earliest`."""
        return self.earliest()

    def latest_tiered(self) -> TimestampAndOffset:
        """The last offset in tiered storage: there is none."""
        return TimestampAndOffset(-1, -1, -1)

    def latest(self, upto: int) -> TimestampAndOffset:
        """What a reader bounded by offset ``upto`` takes for the end, with the newest leader epoch."""
        return TimestampAndOffset(-1, upto, self.epochs.latest_epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest leader epoch not above the one asked for; (-1, -1) if not known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Stopping

    def flush_if_due(self, end: int = -1) -> asyncio.Future[None] | None:
        """The sync that `flush.messages` asks for below offset ``end`` (by default of everything); None if nothing is
        due. A leader's appends ask for it themselves."""
        if (end if end >= 0 else self.log_end_offset) - self.flusher.recovery_point < self._flush_messages:
            return None
        return self.flusher.flush()

    def flush(self) -> asyncio.Future[None] | None:
        """Sync everything appended so far, off the loop; None if that is so already."""
        return self.flusher.flush()

    def close(self) -> None:
        """Complete indexes, sync, take a snapshot of the producers. Blocks where something is unsynced: await
        `flush` before. KafkaError; closing twice is harmless."""
        if self.closed:
            return
        self.closed = True
        try:
            self.flusher.flush_blocking()
            self.producer_state.map_end_offset = self.log_end_offset
            self.producer_state.take_snapshot()
            self.release()
        except OSError as error:
            raise self._failed(error) from error

    def release(self) -> None:
        """Close all files as they are: of a log that is being deleted, or has failed."""
        self.closed = True
        for segment in self.segments:
            segment.file.close()


def _writable(records: Records) -> bytearray | memoryview:
    """The same bytes, to be patched in place: a request's frame is; anything else is copied."""
    if isinstance(records, bytearray):
        return records
    if isinstance(records, memoryview) and not records.readonly:
        return records
    return bytearray(records)
