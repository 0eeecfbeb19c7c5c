"""What a failed log directory means for the broker as a whole.

As long as the first directory, which holds the embedded metadata store, and at least one more are online, the broker
keeps running: partitions in a failed directory return KAFKA_STORAGE_ERROR, and the controller elects other leaders for
them. Otherwise the broker stops, as Apache Kafka does when its metadata log's directory fails. Directories that were in
use before and are empty at start are not used: their file system is not mounted. Failures are detected in
`kwire.log.manager.directory_guard`.
"""

from __future__ import annotations

import asyncio
import errno
import os.path
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, Check, StoreError, Write
from kwire.log.common.log_dirs import read_meta_properties

if TYPE_CHECKING:
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.cluster.store.store import MetadataStore
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager

RETRY_S: Final = 1.0
"""Seconds until offline replicas are reported again if the controller did not accept the report."""

_log = get_logger("kwire.server")


class FatalFailure:
    """Whether the broker cannot go on: ``occurred`` is set and ``cause`` says why in one line. Its process stops it."""

    def __init__(self) -> None:
        self.occurred = asyncio.Event()
        self.cause = ""

    def report(self, cause: str) -> None:
        """The broker cannot go on. The first cause stays."""
        if not self.occurred.is_set():
            self.cause = cause
            self.occurred.set()


class LogDirFailureHandler:
    """Receives each failure of a log directory, from the first moment of the start. ``paths``: log.dirs."""

    def __init__(self, paths: Sequence[str], fatal: FatalFailure) -> None:
        self._paths = paths
        self._fatal = fatal
        self._failed: dict[str, None] = {}
        self._listeners: list[Callable[[LogDirectory], None]] = []

    def add_listener(self, listener: Callable[[LogDirectory], None]) -> None:
        """Have a function called for each directory whose failure the broker survives."""
        self._listeners.append(listener)

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """The log manager calls this once for each directory, also while the broker starts."""
        self._failed[directory.path] = None
        if len(self._failed) == len(self._paths):
            self._fatal.report(f"all log.dirs have failed, the last one was {directory.path}: {error}")
        elif directory.path == self._paths[0]:
            self._fatal.report(f"the directory of the metadata store (the first of log.dirs) has failed: {error}")
        else:
            for listener in self._listeners:
                listener(directory)


class OfflineReplicas:
    """Reports the replicas in failed directories to the controller, until it has accepted them all."""

    def __init__(
        self,
        controller: Controller,
        metadata: MetadataCache,
        logs: LogManager,
        replicas: ReplicaManager,
        broker_id: int,
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._logs = logs
        self._replicas = replicas
        self._broker_id = broker_id
        self._task: asyncio.Task[None] | None = None
        self._unreported: dict[tuple[str, int], None] = {}

    def start(self, failures: LogDirFailureHandler) -> None:
        """Report what has failed since this broker joined the cluster, and follow failures from now on. Call it when
        the replica manager has started."""
        for topic in self._metadata.image.topics.values():
            led = [index for index, state in enumerate(topic.partitions) if state.leader == self._broker_id]
            self._add([(topic.name, index) for index in led if self._logs.is_offline(topic.name, index)])
        failures.add_listener(self._directory_failed)

    def close(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()

    def _directory_failed(self, directory: LogDirectory) -> None:
        self._add(self._replicas.directory_failed(directory))

    def _add(self, lost: list[tuple[str, int]]) -> None:
        self._unreported.update(dict.fromkeys(lost))
        if self._unreported and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._report())

    async def _report(self) -> None:
        """Once the image names other leaders, clients that refresh their metadata go there."""
        while self._unreported:
            reported = list(self._unreported)
            try:
                await self._controller.leaders.replicas_failed(reported)
            except KafkaError as error:
                _log.warning("offline replicas are not known to the cluster yet", error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            for key in reported:
                del self._unreported[key]


async def hold_back_unmounted(store: MetadataStore, logs: LogManager, broker_id: int) -> None:
    """Take every directory offline that this broker has used before and that is empty now, unless all are empty: its
    file system is not mounted, and no new logs must be created in its mount point. Record the directories in use.
    StoreError if the store cannot be read."""
    key = f"{keys.DIRECTORIES}{broker_id}"
    _, found = await store.read(key)
    entry = found.get(key)
    known = [] if entry is None else keys.unpack(key, entry.value)["paths"]
    files = logs.env.doors.files
    empty = [each for each in logs.directories if each.online and read_meta_properties(files, each.path) is None]
    if len(empty) < len(logs.directories):
        for directory in empty:
            if _absolute(directory) in known:
                text = "It was in use and is empty now: is it mounted? (taken out of log.dirs for one start, it is new)"
                logs.guard.fail(directory, FileNotFoundError(errno.ENOENT, text, directory.path))
    paths = [_absolute(each) for each in logs.directories]
    if paths != known and (known or len(paths) > 1):
        version = ABSENT if entry is None else entry.version
        try:
            await store.commit([Check(key, version)], [Write(key, keys.pack(paths=paths))])
        except StoreError as error:  # a full disk, for example: the next start records them
            _log.warning("log.dirs cannot be recorded", error=str(error))


def _absolute(directory: LogDirectory) -> str:
    return os.path.abspath(directory.path)
