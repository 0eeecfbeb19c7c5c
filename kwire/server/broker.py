"""`Broker`: a whole broker in one object, built from a configuration and the doors.

Start, in this order: data directories (lock, identity), metadata store, logs (recovered), listeners bound, cluster
joined, replicas and groups taken over, listeners accepting. Stop is the reverse. What lives elsewhere: the process
around it, with its signals and lines (`kwire.cli`).
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.image import Endpoint, MetadataCache
from kwire.handlers.context import Services
from kwire.net.addresses import address_text
from kwire.net.server import NetServer
from kwire.server.data_dirs import DataDirs
from kwire.server.dispatch import Dispatcher
from kwire.server.errors import StartError
from kwire.server.settings import net_settings

if TYPE_CHECKING:
    from kwire.cluster.controller import Controller
    from kwire.cluster.membership import Membership
    from kwire.cluster.replica_manager import ReplicaManager
    from kwire.cluster.store import MetadataStore
    from kwire.log.log_manager import LogManager
    from kwire.net.listener import Listener

DRAIN_S: Final = 5.0
"""How long a stopping broker waits for clients to take the answers to what they had asked."""

_log = get_logger("kwire.server")


class Broker:
    """``async with Broker(log_dir="/tmp/data", listeners="PLAINTEXT://localhost:0") as broker:``

    Takes a `KafkaConfig`, or properties as keywords with ``_`` for ``.``. ``cluster_id``: for a new cluster. ``doors``
    and ``store`` are for tests and the simulation. The constructor raises `ConfigError`, `start` raises `StartError`.
    """

    def __init__(
        self,
        config: KafkaConfig | None = None,
        *,
        doors: Doors | None = None,
        store: MetadataStore | None = None,
        cluster_id: str | None = None,
        **properties: object,
    ) -> None:
        if config is None:
            texts = {name.replace("_", "."): _property_text(value) for name, value in properties.items()}
            config = KafkaConfig.load(overrides=texts)
        elif properties:
            raise TypeError("give a KafkaConfig or properties, not both")
        self.config = config
        self.doors = doors or Doors()
        self.metrics = MetricsRegistry(self.doors.clock.monotonic)
        self.services = Services(
            doors=self.doors, config=config, metrics=self.metrics, broker_id=config.node_id, cluster_id=""
        )
        self._given_store = store
        self._parts = AsyncExitStack()
        self._wanted_cluster_id = cluster_id
        self.cluster_id = ""
        self.bootstrap_servers = ""
        self.started = False
        self.net: NetServer
        self.dispatcher: Dispatcher
        self.metadata: MetadataCache
        self.membership: Membership
        self.replicas: ReplicaManager
        self.logs: LogManager
        self.groups: Any = None

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
        except KafkaError as error:
            await self.stop()
            raise StartError(error.message or str(error)) from error
        except BaseException:
            await self.stop()
            raise
        self.started = True

    async def _start_parts(self) -> None:
        self._parts.callback(self.doors.executor.close)
        directories = DataDirs(self.doors, self.config.data_dirs)
        self._parts.callback(directories.close)
        cluster_id = directories.open(self.config.node_id)
        wanted = self._wanted_cluster_id
        if wanted is not None and cluster_id not in (None, wanted):
            raise StartError(f"cluster id {wanted}: the data belongs to cluster {cluster_id}")
        store = await self._open_store(directories)
        self.metadata = MetadataCache(store)
        await self.metadata.start()
        self._parts.callback(self.metadata.close)
        await self._load_logs(directories)
        self._open_listeners()
        await self._join(store, cluster_id or wanted)
        directories.mark(self.cluster_id, self.config.node_id)
        await self._take_over(store)
        self._accept()

    async def _open_store(self, directories: DataDirs) -> MetadataStore:
        store = self._given_store
        if store is None:
            from kwire.cluster.embedded import EmbeddedStore

            store = EmbeddedStore(directories.directories[0], self.doors)
        await store.open()
        self._parts.push_async_callback(store.close)
        return store

    async def _load_logs(self, directories: DataDirs) -> None:
        try:
            from kwire.log.log_manager import LogManager
        except ModuleNotFoundError:
            return
        self.logs = LogManager(self.doors, directories.directories, self.config)
        await self.logs.load_all()
        self._parts.push_async_callback(self.logs.close)

    def _open_listeners(self) -> None:
        """Bind all listeners, so that their ports are known, without accepting."""
        from kwire.handlers.registry import Registry

        registry = Registry.load()
        self.services.registry = registry
        advertised = {
            endpoint.listener: (endpoint.host, endpoint.port) for endpoint in self.config.advertised_endpoints()
        }
        self.dispatcher = Dispatcher(self.services, registry, advertised)
        self.net = NetServer(self.doors, net_settings(self.config), self.dispatcher, get_logger("kwire.net"))
        self._parts.callback(self.net.close)
        for endpoint in self.config.endpoints():
            try:
                self.net.open(endpoint)
            except OSError as error:
                raise StartError(f"listeners={endpoint}: cannot listen: {error.strerror or error}") from None
        first = self.net.listeners[0]
        self.bootstrap_servers = address_text(*(advertised.get(first.name) or _reachable(first)))

    def registered_endpoints(self) -> list[Endpoint]:
        """What the cluster is told of this broker's listeners: the advertised address, or the one bound to."""
        advertised = {endpoint.listener: endpoint for endpoint in self.config.advertised_endpoints()}
        endpoints = []
        for endpoint, listener in zip(self.config.endpoints(), self.net.listeners, strict=True):
            told = advertised.get(endpoint.listener)
            host, port = (told.host, told.port) if told is not None else _reachable(listener)
            endpoints.append(Endpoint(endpoint.listener, host, port, endpoint.security_protocol))
        return endpoints

    async def _join(self, store: MetadataStore, cluster_id: str | None) -> None:
        from kwire.cluster.membership import Membership
        from kwire.handlers.api_versions import NEW_CLUSTER_FEATURES

        self.membership = Membership(
            self.doors, store, self.metadata, self.config.node_id, features=NEW_CLUSTER_FEATURES
        )
        self.cluster_id = await self.membership.join(
            self.registered_endpoints(), cluster_id=cluster_id, rack=self.config.broker_rack
        )
        self._parts.push_async_callback(self.membership.leave)

    async def _take_over(self, store: MetadataStore) -> None:
        """Become what the cluster's image says this broker is."""
        from kwire.cluster.controller import Controller
        from kwire.cluster.replica_manager import ReplicaManager

        services = self.services
        services.cluster_id = self.cluster_id
        services.image_source = lambda: self.metadata.image
        controller: Controller = Controller(self.doors, self.config, store, self.metadata, self.config.node_id)
        services.controller = controller
        if not hasattr(self, "logs"):
            return
        services.logs = self.logs
        self.replicas = services.replicas = ReplicaManager(self.config, self.logs, self.metadata, self.config.node_id)
        self.replicas.start()
        self._parts.push_async_callback(self.replicas.close)

    def _accept(self) -> None:
        self.net.start()
        self._parts.push_async_callback(self.net.drain, DRAIN_S)
        self._parts.callback(self.net.stop_accepting)

    # -- stop -------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answer what was asked, close the logs clean, leave the cluster. Harmless when nothing runs."""
        self.started = False
        await self._parts.aclose()


def _property_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _reachable(listener: Listener) -> tuple[str, int]:
    """The address by which a client on this host reaches a listener."""
    host, port = listener.address
    return ("localhost" if host in ("", "0.0.0.0", "::") else host), port


async def run_until(broker: Broker, stop: asyncio.Event) -> None:
    """Serve until told to stop."""
    async with broker:
        await stop.wait()
