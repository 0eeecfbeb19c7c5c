"""`Broker`: a whole broker in one object, built from a configuration and the doors.

Start, in this order: data directories locked, metadata store, logs (recovered), listeners bound, cluster joined,
replicas and groups taken over, listeners accepting. Stop is the reverse. What lives elsewhere: the process around it,
with its signals and lines (`kwire.cli`).
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final

from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.controller.adoption import adopt_logs
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.failover import Failover
from kwire.cluster.controller.membership import Membership
from kwire.cluster.metadata.features import supported
from kwire.cluster.metadata.image import ClusterImage, ConfigResource, Delta, Endpoint, MetadataCache
from kwire.cluster.replication.fetcher_manager import ReplicaFetchers
from kwire.cluster.replication.isr_writer import IsrWriter
from kwire.cluster.replication.peers import Peers
from kwire.cluster.replication.replica_manager import ReplicaManager
from kwire.cluster.replication.throttles import Throttles
from kwire.cluster.store.keys import broker_key
from kwire.cluster.store.store import StoreError
from kwire.coordinator.groups.coordinator import GroupCoordinator
from kwire.coordinator.transactions.coordinator import TransactionCoordinator
from kwire.handlers.context import Services
from kwire.handlers.registry import Registry
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectoryError, read_meta_properties
from kwire.log.manager.log_manager import LogManager
from kwire.net.addresses import address_text
from kwire.net.server import NetServer
from kwire.server.dispatch import Dispatcher
from kwire.server.errors import StartError
from kwire.server.gauges import LoopLag, add_gauges
from kwire.server.log_dir_failures import DiskTrouble, hold_back_unmounted
from kwire.server.settings import cleaner_settings, log_settings, net_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.cluster.metadata.image import BrokerImage
    from kwire.cluster.store.store import MetadataStore
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.net.listener import Listener
    from kwire.server.control import Control

DRAIN_S: Final = 5.0
"""How long a stopping broker waits for clients to take the answers to what they had asked."""

HAND_OVER_S: Final = 10.0
REJOIN_S: Final = 0.5
SEND_AWAY_S: Final = 1.0
"""How long clients may stay with a broker that is out of the cluster."""

_log = get_logger("kwire.server")


class Broker:
    """``async with Broker(log_dir="/tmp/data", listeners="PLAINTEXT://localhost:0") as broker:``

    Takes a `KafkaConfig`, or properties as keywords with ``_`` for ``.``. ``cluster_id``: for a new cluster.
    ``adopt``: take in all logs that the cluster does not know (a new cluster always does). ``doors`` and ``store`` are
    for tests and the simulation. The constructor raises `ConfigError`, `start` raises `StartError`.
    """

    def __init__(
        self,
        config: KafkaConfig | None = None,
        *,
        doors: Doors | None = None,
        store: MetadataStore | None = None,
        cluster_id: str | None = None,
        adopt: bool = False,
        **properties: object,
    ) -> None:
        if config is None:
            texts = {
                name.replace("_", "."): _property_text(value) for name, value in properties.items() if value is not None
            }
            config = KafkaConfig.load(overrides=texts)
        elif properties:
            raise TypeError("give a KafkaConfig or properties, not both")
        self.config = config
        self.doors = doors or Doors()
        self.metrics = MetricsRegistry(self.doors.clock.monotonic)
        self.cluster_id = cluster_id or ""
        self.bootstrap_servers = ""
        self.adopted_topics: list[str] = []
        self.services: Services
        self.net: NetServer
        self.dispatcher: Dispatcher
        self.metadata: MetadataCache
        self.membership: Membership
        self.controller: Controller
        self.logs: LogManager
        self.replicas: ReplicaManager
        self.groups: GroupCoordinator
        self.transactions: TransactionCoordinator
        self.control: Control | None = None  # for tests only
        self.disk_trouble = DiskTrouble(self)
        """Set ``over`` when the broker cannot go on; whoever runs it stops it then."""
        self.is_serving = False
        self._given_store = store
        self._store: MetadataStore
        self._rejoining: asyncio.Task[None] | None = None
        self._on_refused: Callable[[BrokerImage], None] = lambda _broker: None
        self._adopt = adopt
        self._parts = AsyncExitStack()

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # -- start ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when clients are served, the group coordinator included. What was begun is undone on failure."""
        for line in self.config.warnings:
            _log.warning(line)
        for line in self.config.notes:
            _log.info(line)
        try:
            await self._start_parts()
        except (KafkaError, LogDirectoryError, StoreError) as error:
            await self.stop()
            raise StartError(getattr(error, "message", None) or str(error)) from error
        except BaseException:
            await self.stop()
            raise

    async def _start_parts(self) -> None:
        self._parts.callback(self.doors.executor.close)
        self._lock_directories()
        await self._open_store()
        await self._load_logs()
        await self._bind()
        await self._join()
        await self._take_over()
        self._accept()

    def _lock_directories(self) -> None:
        """Take the data directories, and from them who this broker is, where nobody says otherwise."""
        config = self.config
        self.logs = LogManager(
            self.doors,
            config.data_dirs,
            self._log_config,
            log_settings(config),
            on_directory_failure=self.disk_trouble.directory_failed,
            topic_id_of=self._topic_id,
        )
        self._parts.callback(self.logs.unlock)
        for number, directory in enumerate(self.logs.directories):
            try:
                directory.lock()
                meta = read_meta_properties(self.doors.files, directory.path)
            except OSError as error:
                if number == 0:  # the metadata store lies in it
                    raise StartError(f"log.dirs: {directory.path} cannot be used: {_reason(error)}") from None
                self.logs.guard.fail(directory, error)
                continue
            if meta is None:
                continue
            if meta.cluster_id is not None:
                if self.cluster_id not in ("", meta.cluster_id):
                    raise StartError(f"{directory.path} belongs to cluster {meta.cluster_id}, not to {self.cluster_id}")
                self.cluster_id = meta.cluster_id
            if meta.node_id is not None and not config.static.keys() & {"node.id", "broker.id"}:
                config = self.config = KafkaConfig({**config.static, "node.id": str(meta.node_id)})
            if meta.node_id not in (None, config.node_id):
                raise StartError(f"node.id={config.node_id}: {directory.path} belongs to node {meta.node_id}")

    async def _open_store(self) -> None:
        if self._given_store is not None:
            self._store = self._given_store
        elif self.config.zookeeper_connect:
            from kwire.cluster.store.zookeeper.client import settings_of
            from kwire.cluster.store.zookeeper.store import ZooKeeperStore

            self._store = store = ZooKeeperStore(settings_of(self.config))
            self._on_refused = lambda broker: store.presume_dead(broker_key(broker.id), broker.epoch)
        elif self.config.kwire_metadata_dir:
            from kwire.cluster.store.shared import SharedStore

            self._store = SharedStore(self.config.kwire_metadata_dir, self.doors)
        else:
            from kwire.cluster.store.embedded import EmbeddedStore

            self._store = EmbeddedStore(self.config.data_dirs[0], self.doors, on_failure=self.logs.guard.report)
        await self._store.open()
        self._parts.push_async_callback(self._store.close)
        self.metadata = MetadataCache(self._store)
        self.metadata.add_listener(self._on_image)
        await self.metadata.start()
        self._parts.callback(self.metadata.close)

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        """Follow what was set for all brokers and for this one."""
        mine = str(self.config.node_id)
        if any(resource == ConfigResource.BROKER and name in ("", mine) for resource, name in delta.configs):
            default, own = image.config(ConfigResource.BROKER, ""), image.config(ConfigResource.BROKER, mine)
            for problem in self.config.apply_dynamic(default, own):
                _log.warning(problem)

    def _topic_id(self, topic: str) -> bytes | None:
        image = self.metadata.image.topic(topic)
        return None if image is None else image.id

    def _log_config(self, topic: str) -> LogConfig:
        return LogConfig.from_values(self.config.topic_config(self.metadata.image.topic_config(topic)))

    async def _load_logs(self) -> None:
        await hold_back_unmounted(self._store, self.logs, self.config.node_id)
        await self.logs.load_all(self._log_progress)
        self._parts.push_async_callback(self.logs.close)

    def _log_progress(self, done: int, total: int, scanned_bytes: int) -> None:
        if done == total or not done % 1000:
            _log.info("logs loaded", done=done, total=total, scanned_bytes=scanned_bytes)

    async def _bind(self) -> None:
        """Bind all listeners, so that their ports are known, without accepting."""
        registry = Registry.load()
        if self.config.kwire_test_control:
            registry = await self._open_control(registry)
        self.services = Services(
            doors=self.doors,
            config=self.config,
            metrics=self.metrics,
            broker_id=self.config.node_id,
            logs=self.logs,
            registry=registry,
            image_source=lambda: self.metadata.image,
            supported_features=supported(self.config.kwire_test_supported_features),
        )
        advertised = {each.listener: (each.host, each.port) for each in self.config.advertised_endpoints()}
        self.dispatcher = Dispatcher(self.services, self.services.registry, advertised)
        self.net = NetServer(self.doors, net_settings(self.config), self.dispatcher, get_logger("kwire.net"))
        self._parts.callback(self.net.close)
        for endpoint in self.config.endpoints():
            try:
                self.net.open(endpoint)
            except OSError as error:
                raise StartError(f"listeners={endpoint}: cannot listen: {error.strerror or error}") from None
        if (
            self.config.kwire_metadata_dir or self.config.zookeeper_connect
        ):  # one name for every broker, whoever is asked
            advertised.update({each.listener: (each.host, each.port) for each in self.registered_endpoints()})
        first = self.registered_endpoints()[0]
        self.bootstrap_servers = address_text(first.host, first.port)
        add_gauges(self)
        self._parts.callback(LoopLag(self.metrics).close)

    async def _open_control(self, registry: Registry) -> Registry:
        from kwire.server.control import Control

        self.control = Control(self.config.data_dirs[0])
        await self.control.open(self.doors.files)
        self._parts.push_async_callback(self.control.close, self.doors.files)
        return self.control.over(registry)

    def registered_endpoints(self) -> list[Endpoint]:
        """What the cluster is told of this broker's listeners: the advertised address, or the one bound to."""
        advertised = {endpoint.listener: endpoint for endpoint in self.config.advertised_endpoints()}
        endpoints = []
        for endpoint, listener in zip(self.config.endpoints(), self.net.listeners, strict=True):
            told = advertised.get(endpoint.listener)
            host, port = (told.host, told.port) if told is not None else _reachable(endpoint.host, listener)
            endpoints.append(Endpoint(endpoint.listener, host, port, endpoint.security_protocol))
        return endpoints

    async def _join(self) -> None:
        config = self.config
        self.controller = Controller(self.doors, config, self._store, self.metadata, config.node_id)
        self.membership = Membership(
            self.doors,
            self._store,
            self.metadata,
            config.node_id,
            lease_ms=(
                config.zookeeper_session_timeout_ms if config.zookeeper_connect else config.broker_session_timeout_ms
            ),
            supported=self.services.supported_features,
            rules=self.controller.election_rules,
        )
        self._parts.push_async_callback(self.membership.leave)
        self.cluster_id = await self.membership.join(
            self.registered_endpoints(),
            cluster_id=self.cluster_id or None,
            rack=config.broker_rack,
            on_loss=self._on_session_loss,
            clean=self.logs.stopped_clean,
            is_offline=self.logs.is_offline,
        )
        for directory in self.logs.directories:
            if directory.online:
                self._claim(directory)
        if (self.membership.founded or self._adopt) and len(self.logs):
            self.adopted_topics = await adopt_logs(self.controller, self.logs)
            _log.info("topics found in the data directory are served", topics=len(self.adopted_topics))

    def _claim(self, directory: LogDirectory) -> None:
        try:
            directory.claim(self.cluster_id, self.config.node_id)
        except OSError as error:
            raise StartError(f"log.dirs: {directory.path} cannot be used: {_reason(error)}") from None

    async def _take_over(self) -> None:
        """Become what the cluster's image says this broker is."""
        config, broker_id = self.config, self.config.node_id
        self.peers = Peers(
            self.doors, lambda: self.metadata.image, broker_id, config.inter_broker_listener(), self._on_refused
        )
        self._parts.callback(self.peers.close)
        throttles = Throttles(config, self.metadata, broker_id, self.doors.clock.monotonic)
        throttles.add_metrics(self.metrics)
        self.replicas = ReplicaManager(
            config,
            self.logs,
            self.metadata,
            broker_id,
            self.metrics,
            self.doors,
            ReplicaFetchers(config, self.peers, broker_id, lambda: self.membership.broker_epoch, throttles.follower),
            IsrWriter(self._store, self.metadata, broker_id, self.controller.election_rules),
            throttles,
        )
        self.replicas.start()
        await self.replicas.taken_over()
        self.is_serving = True
        self.disk_trouble.begin()
        self._parts.callback(self.disk_trouble.close)
        self._parts.push_async_callback(self.replicas.close)
        self.failover = Failover(self.controller, self.membership, self.metadata)
        self.failover.start()
        self._parts.push_async_callback(self.failover.close)
        self.config.on_change(self._follow_cleaner)
        self._follow_cleaner(frozenset())
        self.logs.start()
        self.groups = GroupCoordinator(self.doors, self.config, self.replicas, self.metadata)
        self.groups.add_metrics(self.metrics)
        self.transactions = TransactionCoordinator(
            self.doors,
            self.config,
            self.replicas,
            self.metadata,
            self.groups,
            self._allocate_producer_ids,
            self.peers,
        )
        self.transactions.add_metrics(self.metrics)
        services = self.services
        services.cluster_id = self.cluster_id
        services.controller = self.controller
        services.peers = self.peers
        services.replicas = self.replicas
        services.groups = self.groups
        services.transactions = self.transactions
        await self.groups.start()
        await self.transactions.start()
        if not self.membership.alive:  # lost while there was nobody to tell
            self._on_session_loss()

    async def _allocate_producer_ids(self) -> range:
        return await self.controller.allocate_producer_ids()

    def _follow_cleaner(self, _changed: frozenset[str]) -> None:
        self.logs.cleaner.reconfigure(cleaner_settings(self.config))

    def _accept(self) -> None:
        self.net.start()
        self._parts.push_async_callback(self.net.drain, DRAIN_S)
        self._parts.push_async_callback(self.groups.close)
        self._parts.push_async_callback(self.transactions.close)
        self._parts.callback(self.net.stop_accepting)
        if self.control is not None:
            self._parts.callback(self.control.resume)  # whoever is drained wants an answer
        self._parts.push_async_callback(self._hand_over)

    # -- leaving and coming back ------------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        """Controlled shutdown: have others lead what they can, while everything is still served here."""
        if not self.config.controlled_shutdown_enable or len(self.metadata.image.brokers) < 2:
            return
        try:
            await self.membership.announce_leaving()
        except StoreError as error:
            _log.warning("stopping without handing over", error=str(error))
            return
        if not await self.metadata.until(lambda _: not self.replicas.leads_what_others_could(), HAND_OVER_S):
            _log.warning("stopping without handing over all partitions", seconds=HAND_OVER_S)

    def _on_session_loss(self) -> None:
        """Fenced: whatever this broker led may have another leader by now."""
        _log.error("the session with the metadata store is lost: nothing is served until this broker is back")
        if hasattr(self, "replicas"):
            self.replicas.fence()
            if self._rejoining is None or self._rejoining.done():
                self._rejoining = asyncio.get_running_loop().create_task(self._rejoin(), name="rejoin")
                self._parts.callback(self._rejoining.cancel)

    async def _rejoin(self) -> None:
        away = asyncio.get_running_loop().create_task(self._send_clients_away(), name="send clients away")
        try:
            while not self.membership.alive:  # the new session may be lost as well, before this broker is back
                try:
                    await self.membership.rejoin()
                except (StoreError, KafkaError) as error:
                    if getattr(error, "code", None) == ErrorCode.UNSUPPORTED_VERSION:
                        self.disk_trouble.end(str(error))
                        return
                    _log.warning("cannot come back yet", error=str(error))
                    await asyncio.sleep(REJOIN_S)
        finally:
            away.cancel()
        self.replicas.unfence()
        _log.info("back in the cluster", broker_epoch=self.membership.broker_epoch)

    async def _send_clients_away(self) -> None:
        """What this broker knows of the cluster gets old, and a client that is connected to nobody else would ask it
        again and again who leads. One whose connection ends asks another broker."""
        while True:
            await asyncio.sleep(SEND_AWAY_S)
            self.net.close_connections()

    # -- stop -------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answer what was asked, tell the groups' members, close the logs clean, leave the cluster. Harmless when
        nothing runs."""
        await self._parts.aclose()


def _reason(error: OSError) -> str:
    """Why a data directory cannot be made or locked, in words for people."""
    if isinstance(error, FileExistsError):
        return "it is a file, not a directory"
    return error.strerror or str(error)


def _property_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _reachable(host: str, listener: Listener) -> tuple[str, int]:
    """The address by which a client on this host reaches a listener: the host as it was given, where one was."""
    return ("localhost" if host in ("", "0.0.0.0", "::") else host), listener.address[1]
