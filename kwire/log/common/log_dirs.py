"""A log directory as a whole: `meta.properties`, the lock, and the cluster and broker that own it.

Each entry of `log.dirs` is one. It belongs to one cluster and one broker, and one process at a time uses it. Its
contents (partitions, checkpoints) are the manager's.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from kwire.base.doors import Doors, Files
from kwire.base.topic_partition import TopicPartition
from kwire.base.uuids import random_uuid, uuid_from_text, uuid_to_text
from kwire.log.common.checkpoints import write_text

META_PROPERTIES_FILE = "meta.properties"
LOCK_FILE = ".lock"
RESTORING_FILE = ".kwire-restoring"
"""The file that is there while a directory is made of a backup: only a part of its data may be there."""


class LogDirectoryError(Exception):
    """A directory that this broker must not use; the message is one line for the operator."""


class MetaProperties(NamedTuple):
    """The cluster and node that own a directory. Version 0 (Kafka with ZooKeeper) has no directory id, and calls the
    node id broker.id."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None
    version: int = 1


META_PROPERTIES_VERSION = 1
"""Kafka's version of the file: 0 with ZooKeeper, 1 since KRaft."""


def parse_properties(text: str) -> dict[str, str]:
    """Parse the subset of Java's properties format that Kafka writes into this file."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return found


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """Read the file; None without it (a new directory). LogDirectoryError if it cannot be parsed."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not files.exists(path):
        return None
    try:
        values = parse_properties(files.read(path).decode())
        version = int(values.get("version", "0"))
        if not 0 <= version <= META_PROPERTIES_VERSION:
            raise LogDirectoryError(
                f"{path}: version {version} is newer than {META_PROPERTIES_VERSION}, the newest that this kwire reads"
            )
        node = values.get("node.id", values.get("broker.id"))
        directory_id = values.get("directory.id")
        missing = [name for name, value in (("cluster.id", values.get("cluster.id")), ("node.id", node)) if not value]
        if len(missing) > (1 if version == 0 else 0):
            raise LogDirectoryError(
                f"{path}: {' and '.join(missing)} not found: no broker has written this file like this"
            )
        return MetaProperties(
            values.get("cluster.id"),
            None if node is None else int(node),
            None if directory_id is None else uuid_from_text(directory_id),
            version,
        )
    except ValueError as error:
        raise LogDirectoryError(f"{path}: {error}") from error


def write_meta_properties(files: Files, directory: str, meta: MetaProperties) -> None:
    """Replace the file, synced. OSError."""
    lines = [f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_to_text(meta.directory_id)}")
    lines += [f"node.id={meta.node_id}", "version=1", ""]
    write_text(files, f"{directory}/{META_PROPERTIES_FILE}", "\n".join(lines), sync=True)


class LogDirectory:
    """One directory of `log.dirs`. Once it has ``failed``, it is not touched any more."""

    def __init__(self, doors: Doors, path: str) -> None:
        self._doors = doors
        self.path = path
        self.failed: OSError | None = None
        self.cordoned = False  # `cordoned.log.dirs`: new logs go to other directories
        self.directory_id = bytes(16)
        self.logs = 0  # how many logs it holds
        self.checkpoint_texts: dict[str, str] = {}  # the texts of its checkpoint files on stable storage
        self.retired: dict[TopicPartition, set[str]] = {}  # removed logs, with the checkpoints that may still name them
        self.transient_errors: dict[int, float] = {}  # when a transient error was last logged, by errno
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None  # device and inode of the directory that was locked
        self._claimed = False

    @property
    def online(self) -> bool:
        """Whether the directory can be used."""
        return self.failed is None

    def lock(self) -> None:
        """Create the directory and take its lock. LogDirectoryError if another process holds it, or if the directory
        is half of a backup; OSError."""
        files = self._doors.files
        files.makedirs(self.path)
        self._lock = files.lock(f"{self.path}/{LOCK_FILE}")
        if self._lock is None:
            raise LogDirectoryError(
                f"another process uses the data directory {self.path} (it holds {self.path}/{LOCK_FILE})"
            )
        if files.exists(f"{self.path}/{RESTORING_FILE}"):
            self.unlock()
            raise LogDirectoryError(
                f"{self.path}: the restore of a backup into it was not finished: run kwire backup restore again"
            )
        found = files.stat(self.path)
        self._identity = (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise OSError unless the directory exists and is the one that was locked: open files work even if their
        directory was removed or unmounted, and what is written to them is lost. Blocks."""
        found = self._doors.files.stat(self.path)
        if (found.st_dev, found.st_ino) != self._identity:
            raise FileNotFoundError(errno.ENOENT, "Another directory is mounted or created in its place", self.path)
        if self._claimed and not self._doors.files.exists(f"{self.path}/{META_PROPERTIES_FILE}"):
            raise FileNotFoundError(errno.ENOENT, "Its files are gone", self.path)

    def claim(self, cluster_id: str, node_id: int) -> None:
        """Check that the directory belongs to this broker, or write that into a new one. LogDirectoryError, OSError."""
        files = self._doors.files
        meta = read_meta_properties(files, self.path)
        if meta is not None and meta.cluster_id is not None and meta.cluster_id != cluster_id:
            raise LogDirectoryError(
                f"The data directory {self.path} belongs to cluster {meta.cluster_id}, not to {cluster_id}"
            )
        if meta is not None and meta.node_id is not None and meta.node_id != node_id:
            raise LogDirectoryError(
                f"The data directory {self.path} belongs to node {meta.node_id}, but node.id is {node_id}"
            )
        self.directory_id = (meta and meta.directory_id) or random_uuid(self._doors.random)
        wanted = MetaProperties(cluster_id, node_id, self.directory_id)
        if meta != wanted:
            write_meta_properties(files, self.path, wanted)
        self._claimed = True

    def unlock(self) -> None:
        """Give the lock back, if it is held."""
        if self._lock is not None:
            self._doors.files.close(self._lock)
            self._lock = None
