"""What a failed data directory means for the broker as a whole.

While one directory is left and the metadata store's is well, the broker goes on without the failed one: its partitions
are told as KAFKA_STORAGE_ERROR, and the cluster learns that this broker does not lead them. Otherwise the broker is
over, as Apache Kafka is (there it is the metadata log's directory). Also knows which directories were in use before, so
that one that is not mounted is not taken for a new one. What fails is noticed elsewhere
(`kwire.log.manager.directory_guard`).
"""

from __future__ import annotations

import asyncio
import errno
import os.path
from typing import TYPE_CHECKING, Final

from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, Check, StoreError, Write
from kwire.log.common.log_dirs import read_meta_properties

if TYPE_CHECKING:
    from kwire.cluster.store.store import MetadataStore
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager
    from kwire.server.broker import Broker

RETRY_S: Final = 1.0
"""How soon the controller is told again that replicas are offline, when it could not take it in."""

_log = get_logger("kwire.server")


class DiskTrouble:
    """Follows the failures of one broker's directories. ``over`` is set, and ``cause`` says why in one line, when the
    broker cannot go on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._untold: dict[tuple[str, int], None] = {}
        self.over = asyncio.Event()
        self.cause = ""

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Called by the log manager once for each directory, also while the broker starts."""
        directories = self._broker.logs.directories
        if not any(each.online for each in directories):
            self.end(f"all log.dirs have failed, the last one was {directory.path}: {error}")
        elif directory is directories[0]:
            self.end(f"the directory of the metadata store (the first of log.dirs) has failed: {error}")
        elif self._broker.is_serving:
            self._take_in(self._broker.replicas.directory_failed(directory))

    def begin(self) -> None:
        """The replicas are taken over: tell of those whose directory has failed since the cluster was joined."""
        broker = self._broker
        mine = broker.config.node_id
        for topic in broker.metadata.image.topics.values():
            led = [index for index, state in enumerate(topic.partitions) if state.leader == mine]
            self._take_in([(topic.name, index) for index in led if broker.logs.is_offline(topic.name, index)])

    def _take_in(self, lost: list[tuple[str, int]]) -> None:
        self._untold.update(dict.fromkeys(lost))
        if self._untold and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._tell())

    def end(self, cause: str) -> None:
        """The broker cannot go on, whatever the reason."""
        if not self.over.is_set():
            self.cause = cause
            self.over.set()

    async def _tell(self) -> None:
        """Have the cluster's image say who leads now; a client that asks for metadata must not come here again."""
        while self._untold:
            told = list(self._untold)
            try:
                await self._broker.controller.replicas_failed(told)
            except KafkaError as error:
                _log.warning("offline replicas are not known to the cluster yet", error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            for key in told:
                del self._untold[key]

    def close(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()


async def hold_back_unmounted(store: MetadataStore, logs: LogManager, broker_id: int) -> None:
    """Give up every directory that this broker has used before and that is empty now, unless all are: its file system
    is not mounted, and nothing must be made in its place. Remember those in use. StoreError."""
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
        except StoreError as error:  # a full disk: the next start will note them
            _log.warning("log.dirs cannot be noted", error=str(error))


def _absolute(directory: LogDirectory) -> str:
    return os.path.abspath(directory.path)
