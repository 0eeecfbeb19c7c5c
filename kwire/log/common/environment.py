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
from kwire.log.common.delayed_remover import DelayedRemover
from kwire.log.common.file_cache import FileCache

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
        cache, remover = FileCache(doors.files, file_budget, makes_room=True), DelayedRemover(doors)
        return cls(doors, cache, remover, on_failure, checkpoint_recovery_point, producer_expiration_ms)

    def failure(self, path: str, error: OSError) -> StorageError:
        """Report an OSError of a log; the exception to raise for it."""
        self.on_failure(path, error)
        return StorageError(path, error)
