"""What all logs of a broker share, given to each of them: doors, open files, delayed removal, failure reporting."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.log.common.file_cache import FileCache
from kwire.log.common.names import DELETED_SUFFIX

if TYPE_CHECKING:
    from kwire.log.partition.partition_log import PartitionLog

logger = get_logger("kwire.log")


TRANSIENT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EBADF})
"""What passes without anybody repairing a disk: no space, no descriptors, no memory. A closed descriptor never is the
disk's fault."""


class SyncFailed(OSError):
    """An fsync failed. Whatever the reason: the system may have dropped what it was to keep, and the next fsync would
    not tell, so this is never transient."""


def is_transient(error: OSError) -> bool:
    """Whether the next attempt may succeed; otherwise the directory has failed."""
    return error.errno in TRANSIENT and not isinstance(error, SyncFailed)


class StorageError(KafkaError):
    """KAFKA_STORAGE_ERROR. ``transient``: the next attempt may succeed, and nothing of this one is in the log."""

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"Error while using {directory}: {error.strerror or error}")
        self.transient = is_transient(error)


def loop_runs() -> bool:
    """Whether there is a loop that could take up work; scripts and the helper processes have none."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _report_nothing(directory: str, error: OSError) -> None:
    """Nobody asked to hear of failed disks."""


async def _keep_nothing(_log: PartitionLog, _end_offset: int) -> None:
    """A log without a manager has no checkpoints."""


class DelayedRemover:
    """Files that are renamed now and removed later, so that reads under way can end (`file.delete.delay.ms`).

    Timers are the running loop's; without a loop (tools, tests) removal is immediate. What a stop leaves behind is
    removed by the next start's recovery.
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
        """Remove a whole directory at once, if that is possible."""
        self._quietly(self._files.rmtree, path)

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
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
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


@dataclass(slots=True)
class LogEnvironment:
    """``on_failure(directory, error)`` hears of every OSError that a log meets while it writes or syncs.
    ``keep_recovery_point(log, end_offset)`` returns when the checkpoint on stable storage has it at or beyond an offset
    up to which the log was synced (OSError)."""

    doors: Doors
    cache: FileCache
    remover: DelayedRemover
    on_failure: Callable[[str, OSError], None] = _report_nothing
    keep_recovery_point: Callable[[PartitionLog, int], Awaitable[None]] = _keep_nothing
    producer_expiration_ms: int = 86_400_000
    directory_syncs: bool = field(default=True)

    @classmethod
    def create(cls, doors: Doors, *, file_budget: int = 512) -> LogEnvironment:
        return cls(doors, FileCache(doors.files, file_budget), DelayedRemover(doors))
