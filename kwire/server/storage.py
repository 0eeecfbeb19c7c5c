"""What a broker keeps, opened first: locked log directories, the metadata store, the cluster image and the logs.

The log directories also name the broker: its node id, where no property sets it, and its cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kwire.base.config import KafkaConfig
from kwire.base.config.cordoning import check_cordoned
from kwire.base.logging import get_logger
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ConfigResource, Delta, MetadataCache
from kwire.cluster.store.keys import broker_key
from kwire.log.common import names
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectoryError, read_meta_properties
from kwire.log.manager.log_manager import LogManager
from kwire.server.directories.layout import refuse_several
from kwire.server.errors import StartError
from kwire.server.log_dir_failures import FatalFailure, LogDirFailureHandler, hold_back_unmounted
from kwire.server.settings import log_settings

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from kwire.base.doors import Doors, Files
    from kwire.cluster.store.store import MetadataStore

OnRefused = Callable[[BrokerImage], None]
"""Called with a broker that refused a connection: ZooKeeper does not notice at once that a process is gone."""

_log = get_logger("kwire.server")


class Storage(NamedTuple):
    """The parts that keep data. ``config`` has the node id that the log directories name, if no property sets it.
    ``is_alone``: no other process can use the metadata store, so nobody else ends this broker's session."""

    config: KafkaConfig
    store: MetadataStore
    is_alone: bool
    on_refused: OnRefused
    metadata: MetadataCache
    logs: LogManager
    failures: LogDirFailureHandler

    @classmethod
    def create(cls, given: KafkaConfig, doors: Doors, store: MetadataStore | None, fatal: FatalFailure) -> Storage:
        """Create all parts; nothing is opened yet. ``store`` replaces the one that the configuration names."""
        config = _with_node_id(given, doors.files)

        def report_failure(path: str, error: OSError) -> None:
            logs.guard.report(path, error)  # made below: the store touches no file before that

        on_refused: OnRefused = _ignore
        is_alone = store is None and not config.is_clustered
        if store is None:
            store, on_refused = create_store(config, doors, report_failure)
        metadata = MetadataCache(store)
        failures = LogDirFailureHandler(config.data_dirs, fatal)

        def log_config(topic: str) -> LogConfig:
            return LogConfig.from_values(config.topic_config(metadata.image.topic_config(topic)))

        def topic_id(topic: str) -> bytes | None:
            image = metadata.image.topic(topic)
            return None if image is None else image.id

        logs = LogManager(
            doors,
            config.data_dirs,
            log_config,
            log_settings(config),
            on_directory_failure=failures.directory_failed,
            topic_id_of=topic_id,
        )
        check_cordoned(config.values)
        config.on_validate(check_cordoned)
        logs.cordon(config.cordoned_log_dirs)
        config.on_change(lambda _changed: logs.cordon(config.cordoned_log_dirs))
        return cls(config, store, is_alone, on_refused, metadata, logs, failures)

    async def open(self, files: Files, cluster_id: str | None, stack: AsyncExitStack) -> str | None:
        """Lock the directories, read the store and load the logs; ``stack`` closes them. Returns the cluster's id, as
        given or as the directories name it. `StartError`, `LogDirectoryError`, `StoreError`."""
        stack.callback(self.logs.unlock)
        cluster_id = self._lock(files, cluster_id)
        await self.store.open()
        stack.push_async_callback(self.store.close)
        self.metadata.add_listener(self._apply_dynamic_config)
        await self.metadata.start()
        stack.callback(self.metadata.close)
        await hold_back_unmounted(self.store, self.logs, self.config.node_id)
        await self.logs.load_all(_log_progress)
        stack.push_async_callback(self.logs.close)
        return cluster_id

    def _lock(self, files: Files, cluster_id: str | None) -> str | None:
        """Lock all directories and check that they belong to this broker and to one cluster."""
        node_id = self.config.node_id
        for number, directory in enumerate(self.logs.directories):
            try:
                directory.lock()
                refuse_several(files, self.config, directory.path)
                meta = read_meta_properties(files, directory.path)
            except OSError as error:
                if number == 0:  # the metadata store lies in it
                    raise StartError(f"log.dirs: {directory.path} cannot be used: {reason_of(error)}") from None
                self.logs.guard.fail(directory, error)
                continue
            if meta is None:
                continue
            if meta.cluster_id is not None:
                if cluster_id and cluster_id != meta.cluster_id:
                    raise StartError(f"{directory.path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
                cluster_id = meta.cluster_id
            if meta.node_id not in (None, node_id):
                raise StartError(f"node.id={node_id}: {directory.path} belongs to node {meta.node_id}")
        return cluster_id

    def refuse_unadopted(self, files: Files) -> None:
        """`StartError` if KRaft's metadata is in a directory, so that nobody starts a new cluster without its ACLs."""
        for path in self.config.data_dirs:
            if files.is_dir(f"{path}/{names.directory_name(names.CLUSTER_METADATA_TOPIC, 0)}"):
                raise StartError(f"{path} was written by Apache Kafka: first run kwire adopt {path}")

    def claim(self, cluster_id: str) -> None:
        """Write the cluster's id and the node id into every directory that is new. `StartError`, LogDirectoryError."""
        for directory in self.logs.directories:
            if directory.online:
                try:
                    directory.claim(cluster_id, self.config.node_id)
                except OSError as error:
                    raise StartError(f"log.dirs: {directory.path} cannot be used: {reason_of(error)}") from None

    def _apply_dynamic_config(self, image: ClusterImage, delta: Delta) -> None:
        """Apply the dynamic properties of all brokers and of this one."""
        own = str(self.config.node_id)
        if any(resource == ConfigResource.BROKER and name in ("", own) for resource, name in delta.configs):
            defaults, overrides = image.config(ConfigResource.BROKER, ""), image.config(ConfigResource.BROKER, own)
            for problem in self.config.apply_dynamic(defaults, overrides):
                _log.warning(problem)


def create_store(
    config: KafkaConfig, doors: Doors, on_failure: Callable[[str, OSError], None]
) -> tuple[MetadataStore, OnRefused]:
    """The store that the configuration names, not open yet, and what to do with a broker that refuses connections."""
    if config.zookeeper_connect:
        from kwire.cluster.store.zookeeper.client import settings_of
        from kwire.cluster.store.zookeeper.store import ZooKeeperStore

        store = ZooKeeperStore(settings_of(config))
        return store, lambda broker: store.presume_dead(broker_key(broker.id), broker.epoch)
    if config.kwire_metadata_dir:
        from kwire.cluster.store.shared import SharedStore

        return SharedStore(config.kwire_metadata_dir, doors), _ignore
    from kwire.cluster.store.embedded import EmbeddedStore

    return EmbeddedStore(config.data_dirs[0], doors, on_failure=on_failure), _ignore


def _ignore(_broker: BrokerImage) -> None:
    """The store detects by itself which brokers are alive."""


def _with_node_id(config: KafkaConfig, files: Files) -> KafkaConfig:
    """The configuration with the node id of the first log directory that has one, unless a property sets it."""
    if config.static.keys() & {"node.id", "broker.id"}:
        return config
    for path in config.data_dirs:
        try:
            meta = read_meta_properties(files, path)
        except (OSError, LogDirectoryError):
            continue  # reported when the directory is locked
        if meta is not None and meta.node_id is not None:
            return KafkaConfig({**config.static, "node.id": str(meta.node_id)})
    return config


def reason_of(error: OSError) -> str:
    """Why a data directory cannot be created or locked, in words for people."""
    if isinstance(error, FileExistsError):
        return "it is a file, not a directory"
    return error.strerror or str(error)


def _log_progress(done: int, total: int, scanned_bytes: int) -> None:
    if done == total or not done % 1000:
        _log.info("logs loaded", done=done, total=total, scanned_bytes=scanned_bytes)
