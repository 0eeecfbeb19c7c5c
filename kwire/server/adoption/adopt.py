"""Adopting a data directory of Apache Kafka: its metadata is written into a new metadata store in the directory, then a
broker registers and recovers the logs, and stops.

The metadata comes first, and only into a store without a cluster: if the command is interrupted it can be repeated, and
there is never a cluster without the ACLs that Kafka had. The broker listens on a free port of this machine meanwhile,
and its authorizer denies everything. What lives elsewhere: the command (`kwire.cli.adopt`), reading Kafka's metadata
(`kwire.cluster.kraft`), the logs (`kwire.log.manager.adopt`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kwire.base.config import KafkaConfig
from kwire.cluster.controller.plan import chunks, value_bytes
from kwire.cluster.kraft.metadata import KafkaMetadata, MetadataLogError
from kwire.cluster.kraft.metadata_log import METADATA_DIRECTORY, has_metadata, read_metadata
from kwire.cluster.metadata import features
from kwire.cluster.store import keys
from kwire.cluster.store.embedded import FILE_NAME
from kwire.cluster.store.store import Check, Write
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.log.common.log_dirs import LogDirectory, read_meta_properties
from kwire.log.manager.adopt import AdoptableDirectory, inspect_data_directory
from kwire.server.access.authorizers import configured_authorizer
from kwire.server.adoption.closed import why_open
from kwire.server.adoption.entries import Taken, take
from kwire.server.broker import Broker
from kwire.server.errors import StartError
from kwire.server.offline import offline_store, write_access

if TYPE_CHECKING:
    from kwire.base.doors import Doors

METADATA_LOG_DIR: Final = "metadata.log.dir"
WITHOUT_SECURITY: Final = "--without-security"
_FEATURES: Final = (features.ELR_VERSION, features.GROUP_VERSION, features.TRANSACTION_VERSION)
"""The features whose levels are taken: they are about protocols that clients use."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was found in the directory, and what was taken of it; ``metadata`` is None if it had been taken before."""

    found: AdoptableDirectory
    topics: list[str]
    metadata: KafkaMetadata | None
    taken: Taken


async def adopt(config: KafkaConfig, doors: Doors, *, without_security: bool) -> Adopted:
    """Adopt the first data directory of a configuration. ``without_security``: also if that makes a cluster open to all
    that was not. `StartError`, `ConfigError`, `LogDirectoryError`, OSError."""
    if config.is_clustered:
        raise StartError("adopt makes a cluster of one broker: leave out zookeeper.connect and kwire.metadata.dir")
    path = config.data_dirs[0]
    found = inspect_data_directory(doors.files, path)
    topics = found.topics()
    config = _of_node(config, found)
    metadata, taken = None, Taken()
    with _unused(path, doors):
        pass  # otherwise the store would not open: this says why
    if not await _has_cluster(config, doors):
        directory = _metadata_dir(config, found, doors)
        metadata = KafkaMetadata() if directory is None else _read(directory, doors)
        if not without_security:
            _check(metadata, found, config, known=directory is not None)
        ids = {name: topic_id for name, (topic_id, _) in topics.items()}
        taken = take(metadata, config, ids, with_security=not without_security)
        await _write(config, doors, taken)
    names = await _register(path, doors)
    if metadata is not None:
        await _write_features(config, doors, metadata)
    return Adopted(found, names, metadata, taken)


def _of_node(config: KafkaConfig, found: AdoptableDirectory) -> KafkaConfig:
    """The configuration of the node to which the directory belongs. `StartError` if it names another one."""
    if found.meta is None or found.meta.node_id is None:
        return config
    if config.static.keys() & {"node.id", "broker.id"} and config.node_id != found.meta.node_id:
        raise StartError(f"node.id={config.node_id}: {found.path} belongs to node {found.meta.node_id}")
    return KafkaConfig({**config.static, "node.id": str(found.meta.node_id)})


async def _has_cluster(config: KafkaConfig, doors: Doors) -> bool:
    """Whether the metadata store in the directory belongs to a cluster already."""
    if not doors.files.exists(f"{config.data_dirs[0]}/{FILE_NAME}"):
        return False
    async with offline_store(config, doors, create=False) as store:
        _, entries = await store.read(keys.CLUSTER)
        return keys.CLUSTER in entries


def _metadata_dir(config: KafkaConfig, found: AdoptableDirectory, doors: Doors) -> str | None:
    """Where Kafka's metadata is: in the directory itself or in `metadata.log.dir`; None if in neither. `StartError` if
    the latter belongs to another broker."""
    if has_metadata(doors.files, found.path):
        return found.path
    other = config.static.get(METADATA_LOG_DIR, "").strip()
    if not other or not has_metadata(doors.files, other):
        return None
    meta = read_meta_properties(doors.files, other)
    if meta is None or found.meta is None or meta[:2] != found.meta[:2]:
        raise StartError(f"{METADATA_LOG_DIR}={other} does not belong to the broker of {found.path}")
    return other


def _read(directory: str, doors: Doors) -> KafkaMetadata:
    """Kafka's metadata, read while no broker can use the directory. `StartError`."""
    with _unused(directory, doors):
        try:
            return read_metadata(doors.files, directory)
        except MetadataLogError as error:
            raise StartError(str(error)) from None


@contextmanager
def _unused(path: str, doors: Doors) -> Iterator[None]:
    """Keep brokers away from a directory. LogDirectoryError if one uses it."""
    directory = LogDirectory(doors, path)
    directory.lock()
    try:
        yield
    finally:
        directory.unlock()


def _check(metadata: KafkaMetadata, found: AdoptableDirectory, config: KafkaConfig, *, known: bool) -> None:
    """`StartError` if the cluster would be open to all and was not. ``known``: whether its metadata was found."""
    configured_authorizer(config)
    reason = why_open(metadata, config, config.node_id)
    of_kraft = found.meta is not None and found.meta.version > 0
    if of_kraft and not known:
        reason = f"it has no {METADATA_DIRECTORY}, nor has {METADATA_LOG_DIR}: what clients had to do is not known"
    if reason is not None:
        raise StartError(
            f"{found.path} is not adopted: {reason}. Name the configuration of the broker with --config FILE, or accept"
            f" with {WITHOUT_SECURITY} that everybody may do everything"
        )


async def _write(config: KafkaConfig, doors: Doors, taken: Taken) -> None:
    async with offline_store(config, doors, create=True) as store:
        for chunk in chunks(taken.values, value_bytes):
            await write_access(store, [], [Write(*item) for item in chunk.items()])


async def _register(path: str, doors: Doors) -> list[str]:
    """Start a broker on the directory, which registers and recovers the logs, and stop it again; the topics."""
    config = KafkaConfig({"log.dirs": path, "listeners": "PLAINTEXT://127.0.0.1:0"})
    nobody = AclAuthorizer(set(), open_without_entries=False)
    async with Broker(config, doors=doors, adopt=True, authorizer=nobody) as broker:
        return broker.adopted_topics


async def _write_features(config: KafkaConfig, doors: Doors, metadata: KafkaMetadata) -> None:
    """Finalise the levels that Kafka had, of the features that both know."""
    if not metadata.features:
        return
    async with offline_store(config, doors, create=False) as store:
        entry = (await store.read(keys.FEATURES))[1][keys.FEATURES]
        levels = dict(keys.unpack(keys.FEATURES, entry.value)["levels"])
        for name in _FEATURES:
            low, high = features.SUPPORTED[name]
            levels[name] = min(max(metadata.features.get(name, 0), low), high)
        await store.commit([Check(keys.FEATURES, entry.version)], [Write(keys.FEATURES, keys.pack(levels=levels))])
