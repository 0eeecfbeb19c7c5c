"""The log cleaner: keeps the last record of every key in logs with `cleanup.policy=compact`, and frees the rest.

`LogCleaner` takes the dirtiest log that is due, has its records worked through by a helper process, and swaps the
cleaned segments in, group after group, so that there is at most one group's extra disk in use beside the files that
wait for `file.delete.delay.ms`. `log.cleaner.threads` such cleanings run at a time. Which log: `cleaner_pick`; the work
on records: `cleaner_job`; the swap: `cleaner_swap`. Readers and writers are never held up, and nothing is locked: a log
that changes underneath is noticed before a swap, and its cleaning begins anew another time.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.base.doors import Doors
from kwire.base.processes import HelperDied
from kwire.log.common.checkpoints import TopicPartition
from kwire.log.common.environment import LogEnvironment, logger
from kwire.log.common.log_config import INT64_MAX
from kwire.log.compaction.checkpoint import CleanerCheckpoints
from kwire.log.compaction.helper import CleanerHelper
from kwire.log.compaction.segment_swap import CleaningAborted, SegmentSwap, keep_what_supersedes
from kwire.log.compaction.selection import DirtyLog, examine, group_segments

if TYPE_CHECKING:
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.partition.partition_log import PartitionLog
    from kwire.log.segment.segment import Segment

TRANSIENT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Trouble that may pass: the cleaning is tried again, and the directory is not given up for it."""

FAILURES_MAX = 3
"""A log whose cleaning kills the helper so many times in a row is not cleaned any more."""

IDLE_S = 10.0
"""How long a helper process is kept with nothing to do."""


@dataclass(frozen=True, slots=True)
class CleanerSettings:
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
        """How much a thread reads or writes at a time: its share of the buffers, one half for each."""
        return self.io_buffer_size // max(self.threads, 1) // 2


@dataclass(slots=True)
class CleanerStats:
    """What one cleaning has done."""

    seconds: float = 0.0
    read_bytes: int = 0  # by the second pass, over what was to be cleaned
    written_bytes: int = 0
    map_read_bytes: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless: int = 0
    utilization: float = 0.0


@dataclass(slots=True)
class CleanerFigures:
    """What the metrics tell (`kafka.log:type=LogCleaner` and `LogCleanerManager`)."""

    max_dirty_ratio: float = 0.0
    max_compaction_delay_ms: int = 0
    last_run_ms: int = 0
    last: dict[int, CleanerStats] = field(default_factory=dict)  # by thread
    cleanings: int = 0
    aborted: int = 0


def key_of(log: PartitionLog) -> TopicPartition:
    return log.topic, log.partition


class LogCleaner:
    """Cleans the logs that ``logs`` yields, each with the directory that it lies in. Everything on one loop."""

    def __init__(
        self,
        env: LogEnvironment,
        logs: Callable[[], Iterable[tuple[PartitionLog, LogDirectory]]],
        settings: CleanerSettings | None = None,
    ) -> None:
        self._env = env
        self._doors: Doors = env.doors
        self._logs = logs
        self.settings = settings or CleanerSettings()
        self.checkpoints = CleanerCheckpoints(env.doors)
        self.figures = CleanerFigures(last_run_ms=env.doors.clock.time_ms())
        self.uncleanable: dict[TopicPartition, str] = {}  # with the cause
        self._failures: dict[TopicPartition, int] = {}
        self._under_way: dict[TopicPartition, Cleaning] = {}
        self._threads: list[CleanerThread] = []
        self._retired: list[CleanerThread] = []
        self._started = False

    # Life

    def start(self, directories: Iterable[LogDirectory]) -> None:
        """Read the checkpoints and begin, on the running loop."""
        self.checkpoints.load(directories)
        self._started = True
        self._resize()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Settings changed while running; `enable` takes effect at the next start, as in Kafka."""
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
        """Stop; a cleaning under way leaves its log as it was."""
        self._started = False
        threads, self._threads, self._retired = self._threads + self._retired, [], []
        for thread in threads:
            await thread.close()
        await self.checkpoints.settled()

    def forget(self, log: PartitionLog, directory: LogDirectory) -> None:
        """A log is on its way out: abort what is under way, and drop what is known of it."""
        key = key_of(log)
        cleaning = self._under_way.get(key)
        if cleaning is not None:
            cleaning.abort()
        self.uncleanable.pop(key, None)
        self._failures.pop(key, None)
        if self._started:
            self.checkpoints.set(directory, key, None)

    def moved(self, log: PartitionLog, before: LogDirectory, after: LogDirectory) -> None:
        """A log went to another directory as it was: what is clean of it is clean there."""
        offset = self.checkpoints.get(before, key_of(log)) if self._started else None
        if offset is not None:
            self.checkpoints.set(after, key_of(log), offset)

    # Figures for the metrics

    @property
    def recopy_ratio(self) -> float:
        """Bytes written for each byte read by the last cleaning of every thread."""
        last = self.figures.last.values()
        return sum(stats.written_bytes for stats in last) / max(sum(stats.read_bytes for stats in last), 1)

    def worst(self, figure: str) -> float:
        """The highest value of a figure of `CleanerStats` among the last cleanings of all threads."""
        return max((getattr(stats, figure) for stats in self.figures.last.values()), default=0.0)

    @property
    def dead_threads(self) -> int:
        return sum(thread.dead for thread in self._threads)

    def since_last_run_ms(self) -> int:
        return self._doors.clock.time_ms() - self.figures.last_run_ms

    def _uncleanable_in(self, path: str) -> list[tuple[PartitionLog, LogDirectory]]:
        return [each for each in self._logs() if each[1].path == path and key_of(each[0]) in self.uncleanable]

    def uncleanable_count(self, directory: str) -> int:
        return len(self._uncleanable_in(directory))

    def uncleanable_bytes(self, directory: str) -> int:
        """The dirty bytes of the logs of a directory that cannot be cleaned."""
        now_ms = self._doors.clock.time_ms()
        found = self._uncleanable_in(directory)
        return sum(examine(log, self.checkpoints.get(at, key_of(log)), now_ms).dirty_bytes for log, at in found)

    # Choosing

    def choose(self) -> tuple[DirtyLog, LogDirectory] | None:
        """The dirtiest log that is due and not being cleaned; None if there is none."""
        now_ms = self._doors.clock.time_ms()
        found = [each for each in self._examined(now_ms) if each[0].clean_bytes + each[0].dirty_bytes > 0]
        self.figures.max_dirty_ratio = max((dirty.ratio for dirty, _ in found), default=0.0)
        self.figures.max_compaction_delay_ms = max((dirty.delay_ms for dirty, _ in found), default=0)
        self.figures.last_run_ms = now_ms
        return max((each for each in found if each[0].is_due), key=lambda each: each[0].ratio, default=None)

    def _examined(self, now_ms: int) -> list[tuple[DirtyLog, LogDirectory]]:
        found = []
        for log, directory in self._logs():
            key = key_of(log)
            if not log.config.compacts or len(log.segments) < 2 or log.closed:
                continue  # first what rules out most logs at the least cost
            if key in self._under_way or key in self.uncleanable:
                continue
            try:
                found.append((self._examine(log, directory, key, now_ms), directory))
            except OSError as error:
                self.give_up(log, f"its segments cannot be looked at: {error}")
        return found

    def _examine(self, log: PartitionLog, directory: LogDirectory, key: TopicPartition, now_ms: int) -> DirtyLog:
        checkpoint = self.checkpoints.get(directory, key)
        if log.cut_to != INT64_MAX:  # what was clean may be other records now
            if checkpoint is not None and log.cut_to < checkpoint:
                checkpoint = log.cut_to
                self.checkpoints.set(directory, key, checkpoint)
            log.cut_to = INT64_MAX
        dirty = examine(log, checkpoint, now_ms)
        if dirty.start_was_invalid:
            self.checkpoints.set(directory, key, dirty.start)
        return dirty

    def give_up(self, log: PartitionLog, cause: str) -> None:
        """Mark a log as one that cannot be cleaned, until the next start."""
        self.uncleanable[key_of(log)] = cause
        logger.warning("log cannot be cleaned and is left as it is", partition=log.name, cause=cause)

    # Cleaning

    async def clean_one(self, thread: int, helper: CleanerHelper) -> bool:
        """Clean the dirtiest log that is due. Whether there was one and its cleaning went to its end."""
        chosen = self.choose()
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
        except Exception as error:  # one log's trouble must not end the cleaning of the others
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
    """A segment holds something that cannot be compacted; the text names file and position."""


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
        """The log goes away: stop at once."""
        self.aborted = True
        self._helper.kill()

    async def run(self) -> int:
        """The offset up to which the log is clean afterwards. CleaningAborted, CorruptRecords, HelperDied, OSError."""
        try:
            latest = await self._build_map()
            if latest < self._dirty.start:
                return max(self._dirty.start, self._dirty.end)  # nothing but what was clean already
            log = self._log
            await keep_what_supersedes(self._env, log, self._end_of_reasons())
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

    def _end_of_reasons(self) -> int:
        """Up to where the log says what may go: the records looked at, and the ends of their transactions, which may
        lie in the active segment."""
        log = self._log
        transactions = any(entry.coordinator_epoch >= 0 for entry in log.producer_state.producers.values())
        return log.log_end_offset if transactions else self._dirty.end

    async def _forget_map(self) -> None:
        try:
            await self._helper.call({"op": "forget"})
        except (HelperDied, OSError):
            pass

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.aborted:
            raise CleaningAborted(f"{self._log.name} goes away")
        rate = self._settings.io_max_bytes_per_second / max(self._settings.threads, 1)
        answer = await self._helper.call(
            {"bytes_per_second": rate if rate < 1e18 else 0.0, "io_bytes": self._settings.io_bytes, **request}
        )
        if self.aborted:
            raise CleaningAborted(f"{self._log.name} goes away")
        if answer.get("error") == "corrupt":
            raise CorruptRecords(answer["message"])
        if answer.get("error") == "os":
            if answer["errno"] == errno.ENOENT and (self._log.closed or not self._still_has(request)):
                raise CleaningAborted(f"{self._log.name} is gone, or a part of it")
            raise OSError(answer["errno"], answer["message"])
        return answer

    def _still_has(self, request: dict[str, Any]) -> bool:
        """Whether retention has left all segments in place that were to be read."""
        present = {segment.base_offset for segment in self._log.segments}
        return present.issuperset(each[0] for each in request.get("segments", ()))

    async def _build_map(self) -> int:
        log, dirty, settings = self._log, self._dirty, self._settings
        chosen = [segment for segment in log.segments if segment.base_offset < dirty.end]
        bases = [segment.base_offset for segment in chosen[1:]] + [dirty.end]
        sealed = [
            (segment.base_offset, segment.size, following)
            for segment, following in zip(chosen, bases, strict=True)
            if following > dirty.start
        ]
        answer = await self._ask(
            {
                "op": "map",
                "directory": log.directory,
                "segments": sealed,
                "start": dirty.start,
                "aborted": log.aborted_transactions(dirty.start, dirty.end),
                "buffer_bytes": settings.dedupe_buffer_size // max(settings.threads, 1),
                "load_factor": settings.io_buffer_load_factor,
            }
        )
        stats = self.stats
        stats.map_read_bytes, stats.keyless = answer["read_bytes"], answer["keyless"]
        stats.utilization = answer["utilization"]
        return int(answer["latest_offset"])

    def _index_bytes(self, segment: Segment) -> int:
        files = self._env.doors.files
        paths = [segment.index.path, segment.time_index.path]
        return max((files.stat(path).st_size for path in paths if files.exists(path)), default=0)

    async def _clean_group(self, group: list[Segment]) -> None:
        log = self._log
        swap = SegmentSwap(self._env, log, group)
        swap.check()
        at = log.segments.index(group[-1]) + 1  # there is one behind it: the active segment is never cleaned
        producers = log.producer_state.producers
        request = {
            "op": "clean",
            "directory": log.directory,
            "segments": [(segment.base_offset, segment.size) for segment in group],
            "aborted": log.aborted_transactions(group[0].base_offset, log.segments[at].base_offset),
            "producers": [(pid, entry.epoch, entry.last_offset) for pid, entry in producers.items()],
            "now_ms": self._env.doors.clock.time_ms(),
            "delete_retention_ms": log.config.delete_retention_ms,
            "upper_bound": self._dirty.end,
            "index_interval": log.config.index_interval_bytes,
        }
        try:
            answer = await self._ask(request)
        except BaseException:
            swap.undo()
            raise
        stats = self.stats
        stats.read_bytes += answer["read_bytes"]
        stats.written_bytes += answer["written_bytes"]
        stats.records_read += answer["records_read"]
        stats.records_kept += answer["records_kept"]
        if answer["largest_batch"] > log.config.max_message_bytes:
            logger.warning(
                "a cleaned batch is larger than max.message.bytes", partition=log.name, size=answer["largest_batch"]
            )
        await swap.run(answer["size"])


class CleanerThread:
    """One of `log.cleaner.threads`: a task that cleans log after log, and sleeps when none is due."""

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
        """Whether it ended by itself, which it never should."""
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._helper.stop()
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            logger.error("log cleaner failed", error=repr(error))
