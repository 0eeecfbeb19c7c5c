"""All logs of a broker: loading them at start, creating and deleting them, checkpoints, retention, clean shutdown.

The manager owns the timers for all periodic work; an idle partition owns none. The log cleaner starts and stops with
the manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from kwire.base.config.cordoning import are_cordoned, names_of_directories
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.topic_partition import TopicPartition
from kwire.log.common import checkpoints, names
from kwire.log.common.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpoint,
    read_topic_id,
)
from kwire.log.common.environment import LogEnvironment, StorageError, logger
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectory, LogDirectoryError
from kwire.log.compaction.cleaner import LogCleaner
from kwire.log.manager.directory_guard import DirectoryGuard
from kwire.log.manager.finding import Found, find_partitions, retire
from kwire.log.manager.load_progress import LoadProgress, LogProgress
from kwire.log.manager.offset_checkpoints import CHECKPOINTED, OffsetCheckpoints
from kwire.log.manager.periodic import PeriodicWork
from kwire.log.manager.settings import ManagerSettings
from kwire.log.manager.upkeep import apply_retention, expire_producers, flush
from kwire.log.partition.opening import open_log
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.partition.recompression import Recompressor
from kwire.log.recovery.helpers import PARTITION_BYTES_MIN, RecoveryHelpers, are_worthwhile, bytes_to_scan
from kwire.log.recovery.messages import RecoveryReport, UncleanPartition

CLOSED_AT_ONCE = 32
"""How many logs are synced in parallel at shutdown, as far as the executor has threads."""

WRITTEN_AT_ONCE = 500
"""Checkpoints of more logs than this are written in several turns of the event loop."""

REWRITE_DELAY_S = 0.1
"""Deletions among very many logs are collected for so long before checkpoints lose their entries."""

YIELD_EVERY = 32
"""While logs are loaded, the event loop continues after so many partitions."""

ConfigProvider = Callable[[str], LogConfig]
"""The settings of a topic by its name."""


def ignore_directory_failure(_directory: LogDirectory, _error: OSError) -> None:
    """For tests without a broker: the logs of a failed directory are closed, and nothing else happens."""


class LogManager:
    """The logs of this broker by topic and partition, to be used from one event loop.

    ``on_directory_failure`` is called with each log directory that has failed, after its logs were closed.
    ``topic_id_of`` returns the present id of a topic, to choose between two directories with a log of its name.
    ``stopped_clean``: all directories loaded so far had a clean-shutdown marker. Without one a broker may have lost
    all its logs.
    """

    def __init__(
        self,
        doors: Doors,
        directories: Sequence[str],
        config_of: ConfigProvider,
        settings: ManagerSettings,
        *,
        on_directory_failure: Callable[[LogDirectory, OSError], None] = ignore_directory_failure,
        topic_id_of: Callable[[str], bytes | None] = lambda _topic: None,
    ) -> None:
        self._doors = doors
        self._files = doors.files
        self._config_of = config_of
        self.settings = settings
        self.directories = [LogDirectory(doors, path) for path in directories]
        self.guard = DirectoryGuard(doors, self.directories, self._take_offline)
        self.env = LogEnvironment.create(
            doors,
            file_budget=self.settings.file_budget,
            on_failure=self.guard.report,
            checkpoint_recovery_point=self._checkpoint_recovery_point,
            producer_expiration_ms=self.settings.producer_expiration_ms,
        )
        self._on_directory_failure = on_directory_failure
        self._topic_id_of = topic_id_of
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._parents: dict[TopicPartition, LogDirectory] = {}
        self._unopened: dict[TopicPartition, Found] = {}  # could not be opened because of an OSError
        self.stopped_clean = True
        self.cleaner = LogCleaner(self.env, self._with_directories, self.settings.cleaner)
        self.recompressor = Recompressor(doors)
        self.periodic = PeriodicWork()
        self._checkpoints = OffsetCheckpoints(doors, self._names, self._collect, self.guard.report)
        self._checking: asyncio.Future[None] | None = None
        self._stale: list[LogDirectory] = []  # with checkpoints that name logs just deleted
        self._rewriting: asyncio.Task[None] | None = None
        self._closed = False

    # -- look-ups ------------------------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, if it is open."""
        return self._logs.get((topic, partition))

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None:
        """The log directory of a log."""
        return self._parents.get((topic, partition))

    def _with_directories(self) -> Iterator[tuple[PartitionLog, LogDirectory]]:
        """The logs of this moment, without those that have been removed when it is their turn."""
        for key in list(self._logs):  # no pairs: ten thousand new objects would be a collection of garbage
            log, directory = self._logs.get(key), self._parents.get(key)
            if log is not None and directory is not None and directory.online:
                yield log, directory

    # -- start ---------------------------------------------------------------------------------------------------------

    def lock(self, cluster_id: str, node_id: int) -> None:
        """Lock all log directories and check that they are this broker's. LogDirectoryError, OSError."""
        try:
            for directory in self.directories:
                directory.lock()
            for directory in self.directories:
                directory.claim(cluster_id, node_id)
        except (LogDirectoryError, OSError):
            self.unlock()
            raise

    def unlock(self) -> None:
        """Give all locks back."""
        for directory in self.directories:
            directory.unlock()

    async def load_all(self, progress: LogProgress | None = None) -> None:
        """Open every partition's directory, and recover the logs that were not closed cleanly. A log that cannot be
        opened because of an OSError is left out and reported."""
        found = [each for directory in self.directories if directory.online for each in self._find_in(directory)]
        unclean = self._unclean(found)
        loading = LoadProgress(self._doors.clock, len(found), sum(each.bytes for each in unclean.values()), progress)
        by_helpers = {at: each for at, each in unclean.items() if each.bytes >= PARTITION_BYTES_MIN}
        if not are_worthwhile(self._doors, list(by_helpers.values())):
            by_helpers = {}
        recovering = asyncio.ensure_future(self._load_recovered(found, by_helpers, loading))
        for at, each in enumerate(found):
            if at in by_helpers:
                continue
            self._load(each, loading, None)
            if at % YIELD_EVERY == 0 or not each.clean:
                await asyncio.sleep(0)
        await recovering

    async def _load_recovered(
        self, found: list[Found], unclean: dict[int, UncleanPartition], loading: LoadProgress
    ) -> None:
        """Have helper processes recover partitions, and open each one when it is done."""
        places = list(unclean)

        def open_recovered(place: int, report: RecoveryReport | None) -> None:
            if report is not None:
                loading.scanned(unclean[places[place]].bytes)
            self._load(found[places[place]], loading, report)

        count = self.settings.recovery_threads_per_directory * len(self.directories)
        helpers = RecoveryHelpers(self._doors, count, self.settings.producer_expiration_ms, open_recovered)
        await helpers.run(list(unclean.values()))

    def _unclean(self, found: list[Found]) -> dict[int, UncleanPartition]:
        """The partitions to recover, by their indexes in ``found``."""
        unclean = {}
        for at, each in enumerate(found):
            try:
                size = -1 if each.clean else bytes_to_scan(self._files, each.path, each.recovery_point)
            except OSError:
                continue  # opening the log reports it
            if size >= 0:
                name = names.directory_name(each.topic, each.partition)
                config = self._config_of(each.topic)
                known = (each.recovery_point, each.log_start_offset, each.cleaned_to)
                unclean[at] = UncleanPartition(each.path, name, config, *known, size)
        return unclean

    def _load(self, each: Found, loading: LoadProgress, report: RecoveryReport | None) -> None:
        try:
            self._open(each, loading.scanned, report)
        except KafkaError as error:
            self._unopened[each.topic, each.partition] = each
            logger.error("log not opened", directory=each.path, error=str(error))
        loading.opened()

    def _find_in(self, directory: LogDirectory) -> list[Found]:
        try:
            found, clean = find_partitions(self.env, directory)
        except OSError as error:
            self.guard.fail(directory, error)
            return []
        self.stopped_clean &= clean
        return found

    def _open(self, each: Found, progress: Callable[[int], None], report: RecoveryReport | None = None) -> None:
        try:
            topic_id = read_topic_id(self._files, each.path) or bytes(16)
        except CorruptCheckpoint as error:
            logger.warning("partition.metadata not read", error=str(error))
            topic_id = bytes(16)
        log = open_log(
            self.env,
            each.path,
            each.topic,
            each.partition,
            topic_id,
            self._config_of(each.topic),
            clean=each.clean,
            recovery_point=each.recovery_point,
            log_start_offset=each.log_start_offset,
            high_watermark=each.high_watermark,
            cleaned_to=each.cleaned_to,
            progress=progress,
            report=report,
        )
        other = self._logs.get((log.topic, log.partition))
        if other is not None:  # a crash at the last step of a move between directories left both
            if self._is_better(other, log):
                self._put_aside(log, each.parent, names.STRAY_DIRECTORY_SUFFIX)
                return
            self.set_aside_as_stray(log.topic, log.partition)
        self._add(log, each.parent)

    def _is_better(self, log: PartitionLog, other: PartitionLog) -> bool:
        """Whether to keep ``log`` of two logs of a name: the one with the topic's id, else the longer one."""
        topic_id = self._topic_id_of(log.topic)
        if log.topic_id != other.topic_id and topic_id in (log.topic_id, other.topic_id):
            return log.topic_id == topic_id
        return log.log_end_offset >= other.log_end_offset

    def _add(self, log: PartitionLog, parent: LogDirectory) -> None:
        key = (log.topic, log.partition)
        self._forget(key)
        self._logs[key] = log
        self._parents[key] = parent
        parent.logs += 1

    def _forget(self, key: TopicPartition) -> tuple[PartitionLog, LogDirectory] | None:
        """Remove a log from the tables; the log and its directory, if it was there."""
        log, parent = self._logs.pop(key, None), self._parents.pop(key, None)
        if log is None or parent is None:
            return None
        parent.logs -= 1
        return log, parent

    # -- creating and deleting -----------------------------------------------------------------------------------------

    def create(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig | None = None, *, is_new: bool = True
    ) -> PartitionLog:
        """Create a log in the directory with the fewest logs, or the next one that works; the existing log if there is
        one with that topic id. If the log is not new, it is not created while a failed directory may hold it.

        KafkaError: KAFKA_STORAGE_ERROR without a usable directory, INCONSISTENT_TOPIC_ID for a log of another topic
        with that name.
        """
        log = self._logs.get((topic, partition)) or self._open_failed((topic, partition))
        if log is not None:
            if log.topic_id not in (topic_id, bytes(16)):
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{log.name} on disk is of another topic")
            return log
        if not is_new and not all(directory.online for directory in self.directories):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log may lie in a directory that has failed")
        config = self._config_of(topic) if config is None else config
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is usable")
        for parent in self._by_load():
            try:
                log = self._create_in(parent, topic, partition, topic_id, config)
            except StorageError as error:
                failure = error
                continue
            self._add(log, parent)
            return log
        raise failure

    def _create_in(
        self, parent: LogDirectory, topic: str, partition: int, topic_id: bytes, config: LogConfig
    ) -> PartitionLog:
        path = f"{parent.path}/{names.directory_name(topic, partition)}"
        self._forget_retired(parent, (topic, partition))
        was_there = self._files.exists(path)
        try:
            return open_log(self.env, path, topic, partition, topic_id, config)
        except StorageError:
            if not was_there and parent.online:  # the next start must not find an incomplete log
                self.env.remover.remove_now(path)
            raise

    def _open_failed(self, key: TopicPartition) -> PartitionLog | None:
        """Open a log that could not be opened at start; None if it is not such a log.
        KafkaError(KAFKA_STORAGE_ERROR)."""
        found = self._unopened.get(key)
        if found is None:
            return None
        if not found.parent.online:
            raise StorageError(found.path, found.parent.failed or OSError("the directory has failed"))
        self._open(found, lambda _size: None)
        del self._unopened[key]
        return self._logs.get(key)

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether a log cannot be used because its directory has failed, or because a failed directory may hold it."""
        key = (topic, partition)
        if key in self._parents:
            return not self._parents[key].online
        if key in self._unopened:
            return not self._unopened[key].parent.online
        return not all(directory.online for directory in self.directories)

    def _forget_retired(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Remove the checkpoint entries of a removed log before a new one gets its name. This waits for the disk if a
        topic is created again within a minute of its deletion. KafkaError(KAFKA_STORAGE_ERROR)."""
        if key not in directory.retired:
            return
        try:
            self.write_checkpoints(directory, sync=True)
        except OSError as error:
            self.guard.report(directory.path, error)
            raise StorageError(directory.path, error) from error

    def _by_load(self) -> list[LogDirectory]:
        """The usable directories, the one with the fewest logs first, whatever their sizes (as in Kafka). Those that
        are cordoned (KIP-1066) come into question only if all are: then somebody has assigned this replica by hand."""
        online = [directory for directory in self.directories if directory.online]
        usable = [directory for directory in online if not directory.cordoned] or online
        return sorted(usable, key=lambda directory: directory.logs)

    def cordon(self, cordoned: Collection[str]) -> None:
        """Give new logs to other directories than these: entries of `log.dirs`, also as absolute paths, or ``*``."""
        names = names_of_directories([each.path for each in self.directories])
        for directory, own in zip(self.directories, names, strict=True):
            directory.cordoned = are_cordoned([own], cordoned)

    async def delete(self, topic: str, partition: int) -> None:
        """Remove a log, if it exists: its directory is renamed now and removed after `file.delete.delay.ms`.
        KafkaError(KAFKA_STORAGE_ERROR)."""
        found = self._forget((topic, partition))
        if found is None:
            self._delete_unopened((topic, partition))
            return
        log, parent = found
        retire(parent, (topic, partition))
        self._put_aside(log, parent, names.DELETE_DIRECTORY_SUFFIX)
        self._checkpoint_soon(parent)

    def _delete_unopened(self, key: TopicPartition) -> None:
        found = self._unopened.pop(key, None)
        if found is not None and found.parent.online:
            retire(found.parent, key)
            self._rename_away(found.path, found.parent, key, names.DELETE_DIRECTORY_SUFFIX)

    def _checkpoint_soon(self, directory: LogDirectory) -> None:
        """Call `write_checkpoints` after this turn of the event loop, once for all logs deleted in it. With very many
        logs it takes several turns; a new log that gets the name of a deleted one meanwhile has them written first
        (`_forget_retired`)."""
        if directory not in self._stale:
            self._stale.append(directory)
            asyncio.get_running_loop().call_soon(self._write_stale)

    def _write_stale(self) -> None:
        if self._rewriting is not None or self._closed:
            return
        if len(self._logs) > WRITTEN_AT_ONCE:
            self._rewriting = asyncio.ensure_future(self._write_stale_in_slices())
            return
        while self._stale:
            directory = self._stale.pop()
            if not directory.online:
                continue
            try:
                self.write_checkpoints(directory)
            except OSError as error:
                self.guard.report(directory.path, error)

    async def _write_stale_in_slices(self) -> None:
        try:
            while self._stale:
                await asyncio.sleep(REWRITE_DELAY_S)
                directory = self._stale.pop()
                if directory.online:
                    await self._checkpoints.write_all_in_slices(directory)
        except OSError as error:
            self.guard.report(directory.path, error)
        finally:
            self._rewriting = None

    def set_aside_as_stray(self, topic: str, partition: int) -> None:
        """Rename the directory of a partition that is not in the cluster's metadata to `-stray`, and keep it."""
        found = self._forget((topic, partition))
        if found is not None:
            log, parent = found
            retire(parent, (topic, partition))
            self._put_aside(log, parent, names.STRAY_DIRECTORY_SUFFIX)

    def replace(self, old: PartitionLog, new: PartitionLog, parent: LogDirectory) -> None:
        """Put a log that was moved to another directory in the place of the old one, which is closed and deleted now.
        KafkaError(KAFKA_STORAGE_ERROR)."""
        before = self._parents[old.topic, old.partition]
        self._add(new, parent)
        self.cleaner.moved(new, before, parent)
        retire(before, (old.topic, old.partition))
        self._put_aside(old, before, names.DELETE_DIRECTORY_SUFFIX)
        self.write_checkpoints(parent)
        self.write_checkpoints(before)

    def _put_aside(self, log: PartitionLog, parent: LogDirectory, suffix: str) -> None:
        log.release()
        self.cleaner.forget(log, parent)
        if parent.online:  # otherwise the next start that finds it sets it aside
            self._rename_away(log.directory, parent, (log.topic, log.partition), suffix)

    def _rename_away(self, path: str, parent: LogDirectory, key: TopicPartition, suffix: str) -> None:
        unique = self._doors.random.randbytes(16)
        leaving = f"{parent.path}/{names.leaving_directory_name(*key, unique, suffix)}"
        try:
            self._files.replace(path, leaving)
        except OSError as error:
            self.guard.report(path, error)
            if not self._files.exists(path):
                return  # somebody else has removed it
            raise StorageError(path, error) from error
        if suffix == names.DELETE_DIRECTORY_SUFFIX:
            self.env.remover.remove_directory(leaving, self._config_of(key[0]).file_delete_delay_ms)

    # -- periodic work -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the periodic work on the running event loop."""
        settings, every = self.settings, self.periodic.every
        for file, interval_ms in (
            (RECOVERY_POINT_FILE, settings.recovery_point_interval_ms),
            (LOG_START_OFFSET_FILE, settings.log_start_interval_ms),
            (HIGH_WATERMARK_FILE, settings.high_watermark_interval_ms),
        ):
            every(file, interval_ms, partial(self._checkpoint_all, file))
        every("directories", settings.high_watermark_interval_ms, self._check_directories)
        self.periodic.every_in_steps("idle files", settings.idle_file_interval_ms, self.env.cache.sweep)
        for name, interval_ms, upkeep in (
            ("retention", settings.retention_check_interval_ms, apply_retention),
            ("flush", settings.flush_scheduler_interval_ms, flush),
            ("producers", settings.producer_check_interval_ms, expire_producers),
        ):
            self.periodic.every_in_steps(name, interval_ms, partial(upkeep, self._logs.values(), self._doors.clock))
        if settings.cleaner.enable:
            self.cleaner.start(self.directories)

    def _checkpoint_all(self, file: str) -> None:
        for directory in self.directories:
            if directory.online:
                self._checkpoints.update(directory, file)

    def _names(self) -> list[TopicPartition]:
        """All logs, those not opened yet included."""
        return [*self._logs, *self._unopened]

    def _collect(self, directory: LogDirectory, file: str, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets for a checkpoint of those of these logs that are in a directory."""
        logs, parents, offset_of = self._logs, self._parents, CHECKPOINTED[file]
        found = {key: offset_of(logs[key]) for key in keys if parents.get(key) is directory and key in logs}
        if self._unopened:
            unopened = [(key, self._unopened[key]) for key in keys if key in self._unopened]
            found |= {key: each.checkpointed(file) for key, each in unopened if each.parent is directory}
        return found

    async def _checkpoint_recovery_point(self, key: TopicPartition, end_offset: int) -> None:
        log, directory = self._logs.get(key), self._parents.get(key)
        if log is not None and directory is not None:
            await self._checkpoints.write_recovery_point(directory, log, end_offset)

    def write_checkpoints(self, directory: LogDirectory, *, sync: bool = False) -> None:
        """Write all checkpoints of a directory now, usually without a sync, so that no entry of a deleted log is left.
        OSError."""
        self._checkpoints.write_all(directory, sync=sync)

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Close the logs of a directory that has failed, without a sync."""
        for key, log in self._logs.items():
            if self._parents[key] is directory:
                log.release()
        self._on_directory_failure(directory, error)

    def _check_directories(self) -> None:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self.guard.check())

    # -- shutdown ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop the periodic work, sync and close every log, write checkpoints and the clean-shutdown marker."""
        if self._closed:
            return
        self._closed = True
        self.periodic.stop()
        await self.cleaner.close()
        await self.recompressor.close()
        if self._rewriting is not None:
            self._rewriting.cancel()
        running = [each for each in (self._checking, self._rewriting) if each is not None]
        if running:
            await asyncio.wait(running)
        await self._checkpoints.settled()
        failed = await self._close_logs()
        self.env.remover.close()
        self.env.cache.close_all()
        for directory in self.directories:
            if directory.online and directory not in failed:
                self._close_directory(directory)
        self.unlock()

    async def _close_logs(self) -> list[LogDirectory]:
        """Close all logs; the directories in which one could not be closed."""
        failed = [
            found.parent for found in self._unopened.values()
        ]  # an unopened log was not recovered, so it is not clean
        logs = [log for log, _ in self._with_directories()]
        for at in range(0, len(logs), CLOSED_AT_ONCE):
            await asyncio.gather(*[self._close_log(log, failed) for log in logs[at : at + CLOSED_AT_ONCE]])
        return failed

    async def _close_log(self, log: PartitionLog, failed: list[LogDirectory]) -> None:
        try:
            await log.flusher.finish()
            log.close()
        except (OSError, KafkaError) as error:
            if isinstance(error, OSError):
                self.guard.report(log.directory, error)
            logger.error("log not closed", partition=log.name, error=str(error))
            failed.append(self._parents[log.topic, log.partition])

    def _close_directory(self, directory: LogDirectory) -> None:
        try:
            self.write_checkpoints(directory, sync=True)
            checkpoints.write_shutdown_copy(self._files, directory.path, self._shutdown_texts(directory))
            checkpoints.write_clean_shutdown(self._files, directory.path)
        except OSError as error:
            self.guard.report(directory.path, error)

    def _shutdown_texts(self, directory: LogDirectory) -> dict[str, str]:
        texts = dict(directory.checkpoint_texts)
        for key, log in self._logs.items():
            if self._parents[key] is directory:
                name = names.directory_name(*key)
                texts[f"{name}/{checkpoints.LEADER_EPOCH_FILE}"] = log.epochs.text()
                if log.topic_id != bytes(16):
                    metadata = checkpoints.topic_id_text(log.topic_id)
                    texts[f"{name}/{checkpoints.PARTITION_METADATA_FILE}"] = metadata
        return texts
