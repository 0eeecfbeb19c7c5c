"""The data directories as a whole: locked against a second broker, and marked with whose they are.

``.lock`` is held by the process; ``meta.properties`` names cluster, node and directory in Kafka's own form. Written
once, when a directory is first used. What is inside the directories belongs to `kwire.log` and to the metadata store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.uuids import random_uuid, uuid_from_text, uuid_to_text
from kwire.server.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.base.doors import Doors

LOCK: Final = ".lock"
META: Final = "meta.properties"
META_VERSION: Final = "1"


class DirectoryIds(NamedTuple):
    """What `meta.properties` says; None where it does not."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


class DataDirs:
    """The data directories of one broker, the first of which holds the metadata store."""

    def __init__(self, doors: Doors, directories: Sequence[str]) -> None:
        self._doors = doors
        self._locks: list[int] = []
        self.directories = list(directories)
        self.ids: dict[str, DirectoryIds] = {}

    def open(self, node_id: int) -> str | None:
        """Create, lock and read all of them; returns the cluster's id, if one of them says. `StartError` for a
        directory that is in use, unreadable, or another node's."""
        for directory in self.directories:
            try:
                self._doors.files.makedirs(directory)
                lock = self._doors.files.lock(f"{directory}/{LOCK}")
            except OSError as error:
                raise StartError(f"log.dirs: {directory} cannot be used: {error.strerror or error}") from None
            if lock is None:
                raise StartError(f"log.dirs: {directory} is in use by another broker")
            self._locks.append(lock)
            self.ids[directory] = self._read(directory)
        for directory, ids in self.ids.items():
            if ids.node_id is not None and ids.node_id != node_id:
                raise StartError(f"node.id={node_id}: the data in {directory} belongs to node.id={ids.node_id}")
        return self._agreed_cluster_id()

    def _agreed_cluster_id(self) -> str | None:
        cluster_ids = {ids.cluster_id: directory for directory, ids in self.ids.items() if ids.cluster_id is not None}
        if len(cluster_ids) > 1:
            listed = ", ".join(f"{directory} ({cluster_id})" for cluster_id, directory in cluster_ids.items())
            raise StartError(f"log.dirs: directories of several clusters: {listed}")
        return next(iter(cluster_ids), None)

    def _read(self, directory: str) -> DirectoryIds:
        path = f"{directory}/{META}"
        if not self._doors.files.exists(path):
            return DirectoryIds(None, None, None)
        try:
            text = self._doors.files.read(path).decode()
            lines = [line.partition("=") for line in text.splitlines() if line and not line.startswith("#")]
            values = {name.strip(): value.strip() for name, _, value in lines}
            version = values.get("version", META_VERSION)
            node_id = values.get("node.id", values.get("broker.id"))
            directory_id = values.get("directory.id")
            ids = DirectoryIds(
                values.get("cluster.id"),
                int(node_id) if node_id is not None else None,
                uuid_from_text(directory_id) if directory_id is not None else None,
            )
        except (OSError, ValueError) as error:
            raise StartError(f"{path} cannot be read: {error}") from None
        if version not in ("0", META_VERSION):
            raise StartError(f"{path} has version {version}: it was written by a newer broker")
        return ids

    def mark(self, cluster_id: str, node_id: int) -> None:
        """Write `meta.properties` where it is missing or says less than that. OSError when it cannot be written."""
        for directory, ids in self.ids.items():
            if ids.cluster_id == cluster_id and ids.node_id == node_id and ids.directory_id is not None:
                continue
            directory_id = ids.directory_id or random_uuid(self._doors.random)
            lines = (
                f"cluster.id={cluster_id}",
                f"directory.id={uuid_to_text(directory_id)}",
                f"node.id={node_id}",
                f"version={META_VERSION}",
            )
            self._doors.files.write_atomic(f"{directory}/{META}", ("\n".join(lines) + "\n").encode())
            self.ids[directory] = DirectoryIds(cluster_id, node_id, directory_id)

    def close(self) -> None:
        """Give the directories free."""
        locks, self._locks = self._locks, []
        for lock in locks:
            self._doors.files.close(lock)
