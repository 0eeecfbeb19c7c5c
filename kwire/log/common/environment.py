"""What all logs of a broker share: doors, open files, delayed removal of files, reporting of disk failures."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.metrics import Histogram
from kwire.base.topic_partition import TopicPartition
from kwire.log.common.file_cache import FileCache
from kwire.log.common.names import DELETED_SUFFIX

logger = get_logger("kwire.log")


TRANSIENT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EBADF})
"""Errors that pass without a repair of the disk: no space, no descriptors, no memory; and a closed descriptor, which is
never the disk's fault."""


class SyncFailed(OSError):
    """An fsync failed. This is never transient, whatever the reason: the system may have dropped the data, and the next
    fsync would not report it."""


def is_transient(error: OSError) -> bool:
    """Whether the next attempt may succeed; otherwise the log directory has failed."""
    return error.errno in TRANSIENT and not isinstance(error, SyncFailed)


class StorageError(KafkaError):
    """KAFKA_STORAGE_ERROR. ``transient``: the next attempt may succeed; nothing of this one is in the log."""

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"Error while using {directory}: {error.strerror or error}")
        self.transient = is_transient(error)


def loop_runs() -> bool:
    """Whether an event loop is running here; scripts and the helper processes have none."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def ignore_failure(_directory: str, _error: OSError) -> None:
    """For logs without a manager (tools, tests): an OSError is only raised."""


async def skip_checkpoint(_log: TopicPartition, _end_offset: int) -> None:
    """For logs without a manager (tools, tests): there is no checkpoint to write."""


class DelayedRemover:
    """Renames files now and removes them later, so that reads under way can complete (`file.delete.delay.ms`).

    Without a running loop (tools, tests) files are removed at once. Recovery at the next start removes what a stop
    leaves behind.
    """

    def __init__(self, doors: Doors) -> None:
        self._files = doors.files
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._next = 0

    def remove_files(self, paths: list[str], delay_ms: int) -> None:
        """Rename files to `.deleted` and remove them after the delay. OSError from the renaming."""
        for path in paths:
            self._files.replace(path, path + DELETED_SUFFIX)
        doomed = [path + DELETED_SUFFIX for path in paths]

        def unlink_all() -> None:
            for path in doomed:
                self._quietly(self._files.unlink, path)

        self.later(delay_ms, unlink_all)

    def remove_directory(self, path: str, delay_ms: int) -> None:
        """Remove a whole directory after the delay."""
        self.later(delay_ms, lambda: self._quietly(self._files.rmtree, path))

    def remove_now(self, path: str) -> None:
        """Remove a whole directory at once; a failure is logged only."""
        self._quietly(self._files.rmtree, path)

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Call something after a delay; at once without a running loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            action()
            return
        key = self._next = self._next + 1

        def run() -> None:
            del self._timers[key]
            action()

        self._timers[key] = loop.call_later(delay_ms / 1000, run)

    def _quietly(self, remove: Callable[[str], None], path: str) -> None:
        try:
            remove(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("cannot remove", path=path, error=str(error))

    def close(self) -> None:
        """Cancel what has not been removed yet."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


@dataclass(slots=True, eq=False, repr=False)
class LogEnvironment:
    """Shared by all logs of a broker.

    ``on_failure(path, error)`` is called with every OSError that a log meets while it writes or syncs.
    ``checkpoint_recovery_point(log, end_offset)`` returns when the checkpoint of recovery points on stable storage
    covers an offset up to which the log was synced (OSError). ``producer_expiration_ms`` is
    `producer.id.expiration.ms`. ``flush_us``: how long syncs of segments took (Kafka's `LogFlushStats`).
    """

    doors: Doors
    cache: FileCache
    remover: DelayedRemover
    on_failure: Callable[[str, OSError], None]
    checkpoint_recovery_point: Callable[[TopicPartition, int], Awaitable[None]]
    producer_expiration_ms: int
    flush_us: Histogram = field(default_factory=lambda: Histogram(1000))

    @classmethod
    def create(
        cls,
        doors: Doors,
        *,
        file_budget: int = 512,
        on_failure: Callable[[str, OSError], None] = ignore_failure,
        checkpoint_recovery_point: Callable[[TopicPartition, int], Awaitable[None]] = skip_checkpoint,
        producer_expiration_ms: int = 86_400_000,
    ) -> LogEnvironment:
        """An environment with a file cache and remover of its own. ``file_budget`` is the number of open segment
        files."""
        cache, remover = FileCache(doors.files, file_budget), DelayedRemover(doors)
        return cls(doors, cache, remover, on_failure, checkpoint_recovery_point, producer_expiration_ms)

    def failure(self, path: str, error: OSError) -> StorageError:
        """Report an OSError of a log; the exception to raise for it."""
        self.on_failure(path, error)
        return StorageError(path, error)
