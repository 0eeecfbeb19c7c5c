"""The log cleaner: keeps the last record of every key in logs with `cleanup.policy=compact`, and removes the others.

`LogCleaner` chooses the dirtiest log that is due, has a helper process clean its records, and replaces segments by the
cleaned ones, group after group: so at most one group needs disk space twice, beside the files that wait for
`file.delete.delay.ms`. `log.cleaner.threads` cleanings run at a time. The choice is in `compaction.selection`, the work
on records in `compaction.job`, the replacement in `compaction.segment_swap`. Nothing is locked, so that readers and
writers never wait: if a log changes meanwhile, its cleaning is aborted before a swap and repeated later.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kwire.base.doors import Doors
from kwire.base.futures import in_turns
from kwire.base.processes.helpers import HelperDied
from kwire.base.topic_partition import TopicPartition
from kwire.log.common.environment import LogEnvironment, logger
from kwire.log.common.log_config import INT64_MAX
from kwire.log.compaction.checkpoint import CleanerCheckpoints
from kwire.log.compaction.helper import CleanerHelper
from kwire.log.compaction.messages import (
    BuildMap,
    CleanGroup,
    CleaningResponse,
    ForgetMap,
    GroupCleaned,
    IoFailed,
    LastOfProducer,
    LogCorrupt,
    MapBuilt,
    SegmentRange,
    SegmentSize,
)
from kwire.log.compaction.segment_swap import CleaningAborted, SegmentSwap, sync_superseding_records
from kwire.log.compaction.selection import DirtyLog, examine, group_segments

if TYPE_CHECKING:
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.partition.partition_log import PartitionLog
    from kwire.log.segment.segment import Segment

TRANSIENT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors that may pass: the cleaning is tried again, and the log directory stays online."""

FAILURES_MAX = 3
"""A log is not cleaned any more if the helper died so many times in a row during its cleaning."""

LOGS_PER_STEP = 250
"""Logs that are examined in one turn of the event loop: less than half a millisecond, if few of them are compacted."""

IDLE_S = 10.0
"""How long an idle helper process is kept."""


class CleanerSettings(NamedTuple):
    """The broker's `log.cleaner.*` properties, with Kafka's defaults. Sizes in bytes, times in milliseconds."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    io_buffer_size: int = 524_288
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000

    @property
    def io_bytes(self) -> int:
        """How many bytes a thread reads or writes at a time: its share of the buffers, half of it for each."""
        return self.io_buffer_size // max(self.threads, 1) // 2


@dataclass(slots=True, eq=False, repr=False)
class CleanerStats:
    """What one cleaning has done."""

    seconds: float = 0.0
    read_bytes: int = 0  # by the second pass
    written_bytes: int = 0
    map_read_bytes: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless: int = 0
    utilization: float = 0.0


@dataclass(slots=True, eq=False, repr=False)
class CleanerFigures:
    """The values of the metrics (`kafka.log:type=LogCleaner` and `LogCleanerManager`)."""

    max_dirty_ratio: float = 0.0
    max_compaction_delay_ms: int = 0
    last_run_ms: int = 0
    last: dict[int, CleanerStats] = field(default_factory=dict)  # by thread
    cleanings: int = 0
    aborted: int = 0


def key_of(log: PartitionLog) -> TopicPartition:
    """The topic and partition of a log."""
    return log.topic, log.partition


class LogCleaner:
    """Cleans the logs that ``logs`` yields, each with its log directory. To be used from one event loop.

    ``uncleanable`` are the logs that cannot be cleaned, with the cause.
    """

    def __init__(
        self,
        env: LogEnvironment,
        logs: Callable[[], Iterable[tuple[PartitionLog, LogDirectory]]],
        settings: CleanerSettings,
    ) -> None:
        self._env = env
        self._doors: Doors = env.doors
        self._logs = logs
        self.settings = settings
        self.checkpoints = CleanerCheckpoints(env.doors)
        self.figures = CleanerFigures(last_run_ms=env.doors.clock.time_ms())
        self.uncleanable: dict[TopicPartition, str] = {}
        self._failures: dict[TopicPartition, int] = {}
        self._under_way: dict[TopicPartition, Cleaning] = {}
        self._threads: list[CleanerThread] = []
        self._retired: list[CleanerThread] = []
        self._started = False

    # -- starting and stopping -----------------------------------------------------------------------------------------

    def start(self, directories: Iterable[LogDirectory]) -> None:
        """Read the checkpoints, and begin to clean on the running loop."""
        self.checkpoints.load(directories)
        self._started = True
        self._resize()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Take new settings; `enable` takes effect at the next start, as in Kafka."""
        self.settings = settings
        if self._started:
            self._resize()

    def _resize(self) -> None:
        while len(self._threads) < self.settings.threads:
            self._threads.append(CleanerThread(self, self._env, len(self._threads)))
        while len(self._threads) > self.settings.threads:
            thread = self._threads.pop()
            thread.cancel()
            self._retired.append(thread)

    async def close(self) -> None:
        """Stop; a cleaning under way leaves its log unchanged."""
        self._started = False
        threads, self._threads, self._retired = self._threads + self._retired, [], []
        for thread in threads:
            await thread.close()
        await self.checkpoints.settled()

    def forget(self, log: PartitionLog, directory: LogDirectory) -> None:
        """A log is being removed: abort its cleaning, and drop its checkpoint."""
        key = key_of(log)
        cleaning = self._under_way.get(key)
        if cleaning is not None:
            cleaning.abort()
        self.uncleanable.pop(key, None)
        self._failures.pop(key, None)
        if self._started:
            self.checkpoints.set(directory, key, None)

    def moved(self, log: PartitionLog, before: LogDirectory, after: LogDirectory) -> None:
        """A log was moved to another directory: its checkpoint is moved, too."""
        offset = self.checkpoints.get(before, key_of(log)) if self._started else None
        if offset is not None:
            self.checkpoints.set(after, key_of(log), offset)

    # -- values for the metrics ----------------------------------------------------------------------------------------

    @property
    def recopy_ratio(self) -> float:
        """Bytes written for each byte read by the last cleaning of every thread."""
        last = self.figures.last.values()
        return sum(stats.written_bytes for stats in last) / max(sum(stats.read_bytes for stats in last), 1)

    def worst(self, figure: str) -> float:
        """The highest value of a field of `CleanerStats` among the last cleanings of all threads."""
        return max((getattr(stats, figure) for stats in self.figures.last.values()), default=0.0)

    @property
    def dead_threads(self) -> int:
        """How many threads have ended, which none should."""
        return sum(thread.dead for thread in self._threads)

    def since_last_run_ms(self) -> int:
        """The time since a thread last looked for a log to clean."""
        return self._doors.clock.time_ms() - self.figures.last_run_ms

    def _uncleanable_in(self, path: str) -> list[tuple[PartitionLog, LogDirectory]]:
        return [each for each in self._logs() if each[1].path == path and key_of(each[0]) in self.uncleanable]

    def uncleanable_count(self, directory: str) -> int:
        """How many logs of a directory cannot be cleaned."""
        return len(self._uncleanable_in(directory))

    def uncleanable_bytes(self, directory: str) -> int:
        """The dirty bytes of the logs of a directory that cannot be cleaned."""
        now_ms = self._doors.clock.time_ms()
        found = self._uncleanable_in(directory)
        return sum(examine(log, self.checkpoints.get(at, key_of(log)), now_ms).dirty_bytes for log, at in found)

    # -- choosing ------------------------------------------------------------------------------------------------------

    async def choose(self) -> tuple[DirtyLog, LogDirectory] | None:
        """The dirtiest log that is due and not being cleaned; None if there is none."""
        now_ms = self._doors.clock.time_ms()
        examined = await in_turns(self._examined(now_ms))
        found = [each for each in examined if each[0].clean_bytes + each[0].dirty_bytes > 0]
        self.figures.max_dirty_ratio = max((dirty.ratio for dirty, _ in found), default=0.0)
        self.figures.max_compaction_delay_ms = max((dirty.delay_ms for dirty, _ in found), default=0)
        self.figures.last_run_ms = now_ms
        due = sorted((each for each in found if each[0].is_due), key=lambda each: each[0].ratio, reverse=True)
        for before, directory in due:
            dirty = self._examine_if_cleanable(before.log, directory, now_ms)  # it may have changed between two turns
            if dirty is not None and dirty.is_due:
                return dirty, directory
        return None

    def _examined(self, now_ms: int) -> Generator[None, None, list[tuple[DirtyLog, LogDirectory]]]:
        """The logs that may be cleaned, with a step after every `LOGS_PER_STEP` logs."""
        found = []
        for number, (log, directory) in enumerate(self._logs(), 1):
            if number % LOGS_PER_STEP == 0:
                yield
            dirty = self._examine_if_cleanable(log, directory, now_ms)
            if dirty is not None:
                found.append((dirty, directory))
        return found

    def _examine_if_cleanable(self, log: PartitionLog, directory: LogDirectory, now_ms: int) -> DirtyLog | None:
        if not log.config.compacts or len(log.segments) < 2 or log.closed:
            return None  # the cheapest check, which rules out most logs, comes first
        key = key_of(log)
        if key in self._under_way or key in self.uncleanable:
            return None
        try:
            return self._examine(log, directory, key, now_ms)
        except OSError as error:
            self.give_up(log, f"its segments cannot be read: {error}")
            return None

    def _examine(self, log: PartitionLog, directory: LogDirectory, key: TopicPartition, now_ms: int) -> DirtyLog:
        checkpoint = self.checkpoints.get(directory, key)
        if log.truncated_to != INT64_MAX:  # records were replaced since the last cleaning
            if checkpoint is not None and log.truncated_to < checkpoint:
                checkpoint = log.truncated_to
                self.checkpoints.set(directory, key, checkpoint)
            log.truncated_to = INT64_MAX
        dirty = examine(log, checkpoint, now_ms)
        if dirty.start_was_invalid:
            self.checkpoints.set(directory, key, dirty.start)
        return dirty

    def give_up(self, log: PartitionLog, cause: str) -> None:
        """Mark a log as one that cannot be cleaned, until the next start."""
        self.uncleanable[key_of(log)] = cause
        logger.warning("log cannot be cleaned and is left as it is", partition=log.name, cause=cause)

    # -- cleaning ------------------------------------------------------------------------------------------------------

    async def clean_one(self, thread: int, helper: CleanerHelper) -> bool:
        """Clean the dirtiest log that is due. Whether there was one and its cleaning was completed."""
        chosen = await self.choose()
        if chosen is None:
            return False
        dirty, directory = chosen
        key = key_of(dirty.log)
        cleaning = self._under_way[key] = Cleaning(self._env, helper, dirty, self.settings)
        begin = self._doors.clock.monotonic()
        try:
            end = await cleaning.run()
        except CleaningAborted as why:
            self.figures.aborted += 1
            logger.info("cleaning aborted", partition=dirty.log.name, why=str(why))
            return False
        except Exception as error:  # an error with one log must not end the cleaning of the others
            self._failed(dirty.log, cleaning, key, error)
            return False
        finally:
            del self._under_way[key]
        cleaning.stats.seconds = self._doors.clock.monotonic() - begin
        self._done(thread, dirty, directory, end, cleaning.stats)
        return True

    def _done(self, thread: int, dirty: DirtyLog, directory: LogDirectory, end: int, stats: CleanerStats) -> None:
        log = dirty.log
        self._failures.pop(key_of(log), None)
        self.figures.last[thread] = stats
        self.figures.cleanings += 1
        self.checkpoints.set(directory, key_of(log), end)
        if stats.keyless:
            logger.warning("records without a key were dropped", partition=log.name, count=stats.keyless)
        logger.info(
            "log cleaned",
            partition=log.name,
            offsets=f"{dirty.start}-{end}",
            seconds=round(stats.seconds, 3),
            read_bytes=stats.read_bytes,
            written_bytes=stats.written_bytes,
            records_read=stats.records_read,
            records_kept=stats.records_kept,
        )

    def _failed(self, log: PartitionLog, cleaning: Cleaning, key: TopicPartition, error: Exception) -> None:
        if cleaning.aborted or log.closed:
            self.figures.aborted += 1
            return
        if isinstance(error, OSError) and error.errno in TRANSIENT_ERRORS:
            logger.warning("cleaning failed and will be tried again", partition=log.name, error=str(error))
        elif isinstance(error, HelperDied) and self._failures.get(key, 0) + 1 < FAILURES_MAX:
            self._failures[key] = self._failures.get(key, 0) + 1
            logger.warning("cleaning failed and will be tried again", partition=log.name, error=str(error))
        else:
            if isinstance(error, OSError):
                self._env.on_failure(log.directory, error)
            self.give_up(log, str(error) or repr(error))


class CorruptRecords(Exception):
    """A segment cannot be compacted because it is damaged; the message names file and position."""


class Cleaning:
    """One log's cleaning, from the offset map to the last swap."""

    def __init__(self, env: LogEnvironment, helper: CleanerHelper, dirty: DirtyLog, settings: CleanerSettings) -> None:
        self._env = env
        self._helper = helper
        self._log = dirty.log
        self._dirty = dirty
        self._settings = settings
        self.stats = CleanerStats()
        self.aborted = False

    def abort(self) -> None:
        """The log is being removed: stop at once."""
        self.aborted = True
        self._helper.kill()

    async def run(self) -> int:
        """Clean the log; the offset up to which it is clean then. CleaningAborted, CorruptRecords, HelperDied,
        OSError."""
        try:
            latest = await self._build_map()
            if latest < self._dirty.start:
                return max(self._dirty.start, self._dirty.end)  # nothing is dirty
            log = self._log
            await sync_superseding_records(self._env, log, self._end_of_superseding_records())
            segments = [segment for segment in log.segments if segment.base_offset <= latest]
            config = log.config
            for group in group_segments(
                segments, self._dirty.end, config.max_segment_bytes, config.segment_index_bytes, self._index_bytes
            ):
                await self._clean_group(group)
            return latest + 1
        finally:
            if self._helper.running and not self.aborted:
                await self._forget_map()

    def _end_of_superseding_records(self) -> int:
        """Up to where the cleaning reads: the dirty records, and the markers of their transactions, which may lie in
        the active segment."""
        log = self._log
        transactions = any(entry.coordinator_epoch >= 0 for entry in log.producer_state.producers.values())
        return log.log_end_offset if transactions else self._dirty.end

    async def _forget_map(self) -> None:
        try:
            await self._helper.call(ForgetMap())
        except (HelperDied, OSError):
            pass

    async def _call(self, request: BuildMap | CleanGroup) -> CleaningResponse:
        """Have the helper carry out a request; its failures become exceptions."""
        if self.aborted:
            raise CleaningAborted(f"{self._log.name} is being closed or deleted")
        rate = self._settings.io_max_bytes_per_second / max(self._settings.threads, 1)
        response = await self._helper.call(request, rate if rate < 1e18 else 0.0)
        if self.aborted:
            raise CleaningAborted(f"{self._log.name} is being closed or deleted")
        if isinstance(response, LogCorrupt):
            raise CorruptRecords(response.message)
        if isinstance(response, IoFailed):
            if response.errno == errno.ENOENT and (self._log.closed or not self._still_has(request)):
                raise CleaningAborted(f"segments of {self._log.name} were deleted")
            raise OSError(response.errno, response.message)
        return response

    def _still_has(self, request: BuildMap | CleanGroup) -> bool:
        """Whether the log still has all segments of a request: retention may have deleted some."""
        present = {segment.base_offset for segment in self._log.segments}
        return present.issuperset(segment.base_offset for segment in request.segments)

    async def _build_map(self) -> int:
        log, dirty, settings = self._log, self._dirty, self._settings
        chosen = [segment for segment in log.segments if segment.base_offset < dirty.end]
        bases = [segment.base_offset for segment in chosen[1:]] + [dirty.end]
        sealed = [
            SegmentRange(segment.base_offset, segment.size, following)
            for segment, following in zip(chosen, bases, strict=True)
            if following > dirty.start
        ]
        response = await self._call(
            BuildMap(
                directory=log.directory,
                segments=sealed,
                start=dirty.start,
                aborted=log.aborted_transactions(dirty.start, dirty.end),
                buffer_bytes=settings.dedupe_buffer_size // max(settings.threads, 1),
                load_factor=settings.io_buffer_load_factor,
                io_bytes=settings.io_bytes,
            )
        )
        assert isinstance(response, MapBuilt)
        stats = self.stats
        stats.map_read_bytes, stats.keyless = response.read_bytes, response.keyless
        stats.utilization = response.utilization
        return response.latest_offset

    def _index_bytes(self, segment: Segment) -> int:
        files = self._env.doors.files
        paths = [segment.index.path, segment.time_index.path]
        return max((files.stat(path).st_size for path in paths if files.exists(path)), default=0)

    async def _clean_group(self, group: list[Segment]) -> None:
        log = self._log
        swap = SegmentSwap(self._env, log, group)
        swap.check()
        at = log.segments.index(group[-1]) + 1  # it exists, since the active segment is never cleaned
        producers = log.producer_state.producers
        request = CleanGroup(
            directory=log.directory,
            segments=[SegmentSize(segment.base_offset, segment.size) for segment in group],
            aborted=log.aborted_transactions(group[0].base_offset, log.segments[at].base_offset),
            producers={pid: LastOfProducer(entry.epoch, entry.last_offset) for pid, entry in producers.items()},
            now_ms=self._env.doors.clock.time_ms(),
            delete_retention_ms=log.config.delete_retention_ms,
            upper_bound=self._dirty.end,
            index_interval=log.config.index_interval_bytes,
            io_bytes=self._settings.io_bytes,
        )
        try:
            response = await self._call(request)
        except BaseException:
            swap.undo()
            raise
        assert isinstance(response, GroupCleaned)
        stats = self.stats
        stats.read_bytes += response.read_bytes
        stats.written_bytes += response.size
        stats.records_read += response.records_read
        stats.records_kept += response.records_kept
        if response.largest_batch > log.config.max_message_bytes:
            logger.warning(
                "a cleaned batch is larger than max.message.bytes", partition=log.name, size=response.largest_batch
            )
        await swap.run(response.size)


class CleanerThread:
    """One of `log.cleaner.threads`: a task that cleans log after log, and sleeps while none is due."""

    def __init__(self, cleaner: LogCleaner, env: LogEnvironment, number: int) -> None:
        self._cleaner = cleaner
        self._doors = env.doors
        self._number = number
        self._helper = CleanerHelper(env.doors)
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        last_busy = self._doors.clock.monotonic()
        while True:
            if await self._cleaner.clean_one(self._number, self._helper):
                last_busy = self._doors.clock.monotonic()
                continue
            if self._helper.running and self._doors.clock.monotonic() - last_busy >= IDLE_S:
                await self._helper.stop()
            await asyncio.sleep(self._cleaner.settings.backoff_ms / 1000)

    @property
    def dead(self) -> bool:
        """Whether the task has ended by itself, which is a defect."""
        return self._task.done()

    def cancel(self) -> None:
        """End the task; `close` waits for that."""
        self._task.cancel()

    async def close(self) -> None:
        """End the task and the helper process."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._helper.stop()
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            logger.error("log cleaner failed", error=repr(error))
