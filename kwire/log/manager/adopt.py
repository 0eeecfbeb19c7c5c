"""Adopting a data directory of Apache Kafka: which topics it holds, so that the metadata store can register them.

Nothing is changed here. After the topics are registered under their ids, an ordinary start opens the logs as they are:
the formats are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.base.doors import Files
from kwire.log.common import names
from kwire.log.common.checkpoints import CLEAN_SHUTDOWN_FILE, CorruptCheckpoint, read_topic_id
from kwire.log.common.log_dirs import LogDirectoryError, MetaProperties, read_meta_properties


@dataclass(frozen=True, slots=True)
class AdoptablePartition:
    """One partition's directory. ``topic_id`` is None if its `partition.metadata` is missing (Kafka before 2.8)."""

    topic: str
    partition: int
    topic_id: bytes | None
    directory: str
    size: int  # bytes of its segments


@dataclass(slots=True)
class AdoptableDirectory:
    """What a Kafka data directory holds. ``skipped`` says in one line each what is left out, and why."""

    path: str
    meta: MetaProperties | None
    clean_shutdown: bool
    partitions: list[AdoptablePartition] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def topics(self) -> dict[str, tuple[bytes | None, list[int]]]:
        """Topic -> its id and its partitions here, ascending. LogDirectoryError if a topic has two ids."""
        found: dict[str, tuple[bytes | None, list[int]]] = {}
        for each in self.partitions:
            topic_id, indexes = found.setdefault(each.topic, (each.topic_id, []))
            if each.topic_id is not None and topic_id is not None and topic_id != each.topic_id:
                raise LogDirectoryError(f"{self.path}: the partitions of topic {each.topic} have different topic ids")
            found[each.topic] = (topic_id or each.topic_id, sorted([*indexes, each.partition]))
        return found


def inspect_data_directory(files: Files, path: str) -> AdoptableDirectory:
    """Inspect one entry of `log.dirs`. LogDirectoryError if it is not a Kafka data directory, OSError."""
    if not files.is_dir(path):
        raise LogDirectoryError(f"{path} is not a directory")
    found = AdoptableDirectory(path, read_meta_properties(files, path), files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}"))
    for name in files.listdir(path):
        full = f"{path}/{name}"
        if files.is_dir(full):
            _look_at(files, found, name, full)
    if found.meta is None and not found.partitions:
        raise LogDirectoryError(f"{path} has neither meta.properties nor partitions: not a Kafka data directory")
    return found


def _look_at(files: Files, found: AdoptableDirectory, name: str, full: str) -> None:
    key = names.parse_directory_name(name)
    if names.is_leaving_directory(name):
        found.skipped.append(f"{name}: being deleted, set aside or moved")
    elif key is None:
        found.skipped.append(f"{name}: not a partition")
    elif key[0] != names.CLUSTER_METADATA_TOPIC:  # KRaft's metadata is read by `kwire.cluster.kraft`
        try:
            topic_id = read_topic_id(files, full)
        except CorruptCheckpoint as error:
            found.skipped.append(f"{name}: {error}")
            return
        size = sum(files.stat(f"{full}/{each}").st_size for each in files.listdir(full) if each.endswith(".log"))
        found.partitions.append(AdoptablePartition(*key, topic_id, full, size))
