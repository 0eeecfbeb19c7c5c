"""`Broker`: a whole broker in one object, made of a configuration and the doors.

What lives elsewhere: the parts (`parts`), the phases of the start (`storage`, `lifecycle`), the process around a broker
with its signals and its output (`kwire.cli`).
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final

from kwire.base.config import KafkaConfig
from kwire.base.config.listeners import LOCAL_ONLY
from kwire.base.doors import Doors
from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.store.store import StoreError
from kwire.handlers.registry import Registry
from kwire.log.common.log_dirs import LogDirectoryError
from kwire.server.access.authorizers import configured_authorizer
from kwire.server.errors import StartError
from kwire.server.gauges.broker import add_gauges
from kwire.server.gauges.loop import LoopLoad
from kwire.server.lifecycle import accept, join, take_over
from kwire.server.log_dir_failures import FatalFailure
from kwire.server.network import Network
from kwire.server.parts import BrokerParts
from kwire.server.storage import Storage

if TYPE_CHECKING:
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.controller.membership import Membership
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.cluster.store.store import MetadataStore
    from kwire.coordinator.groups.coordinator import GroupCoordinator
    from kwire.coordinator.transactions.coordinator import TransactionCoordinator
    from kwire.handlers.context import Authorizer, Services
    from kwire.log.manager.log_manager import LogManager
    from kwire.net.server import NetServer
    from kwire.server.control import Control
    from kwire.server.dispatch import Dispatcher
    from kwire.server.listeners.security import BrokerSecurity

_log = get_logger("kwire.server")

OPEN_TO_ALL: Final = (
    "other hosts reach these listeners without authentication: whoever connects can read and delete everything"
)


class Broker:
    """``async with Broker(log_dir="/tmp/data", listeners="PLAINTEXT://localhost:0") as broker:``

    Takes a `KafkaConfig`, or properties as keywords with ``_`` for ``.`` (a name with dots is left as it is).
    ``cluster_id``: for a new cluster. ``adopt``: adopt all logs that the cluster does not have (a new cluster always
    does). ``doors``, ``store`` and ``authorizer`` are for tests and the simulation. The constructor raises
    `ConfigError`, `start` raises `StartError`. Reading a part before `start` raises RuntimeError.
    """

    def __init__(
        self,
        config: KafkaConfig | None = None,
        *,
        doors: Doors | None = None,
        store: MetadataStore | None = None,
        authorizer: Authorizer | None = None,
        cluster_id: str | None = None,
        adopt: bool = False,
        **properties: object,
    ) -> None:
        if config is None:
            given = {name: value for name, value in properties.items() if value is not None}
            texts = {_property_name(name): _property_text(value) for name, value in given.items()}
            config = KafkaConfig.load(overrides=texts)
        elif properties:
            raise TypeError("give a KafkaConfig or properties, not both")
        config.check_can_serve()
        self.config = config
        self.doors = doors or Doors()
        self.metrics = MetricsRegistry(self.doors.clock.monotonic)
        self.fatal_failure = FatalFailure()
        """Why this broker cannot go on, if so. It is not stopped by itself."""
        self.adopted_topics: list[str] = []
        self._given_store = store
        self._authorizer = authorizer or configured_authorizer(self.config, self.doors.clock.monotonic)
        self._given_cluster_id = cluster_id
        self._adopt = adopt
        self._parts: BrokerParts | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return when clients are served, with both coordinators loaded. A failed start is undone."""
        for line in self.config.warnings:
            _log.warning(line)
        for line in self.config.notes:
            _log.info(line)
        if self.config.is_local_only:
            _log.info(LOCAL_ONLY)
        try:
            await self._start()
        except (KafkaError, LogDirectoryError, StoreError) as error:
            await self.stop()
            raise StartError(getattr(error, "message", None) or str(error)) from error
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        stack = self._stack
        stack.callback(self.doors.executor.close)
        storage = Storage.create(self.config, self.doors, self._given_store, self.fatal_failure)
        self.config = storage.config
        cluster_id = await storage.open(self.doors.files, self._given_cluster_id, stack)
        if not self._adopt and not storage.metadata.image.cluster_id:
            storage.refuse_unadopted(self.doors.files)
        control = await self._open_control() if self.config.kwire_test_control else None
        registry = Registry() if control is None else control.registry()
        security = await self._security()
        network = Network.bind(self.doors, self.config)
        stack.callback(network.close)
        if network.unprotected and self._authorizer.allows_all:
            _log.warning(OPEN_TO_ALL, listeners=",".join(network.unprotected))
        if security is not None:
            self._warn(security, network)
        storage.metadata.add_listener(self._authorizer.follow)
        parts = self._parts = BrokerParts.create(
            self.doors,
            storage,
            network,
            registry,
            self.metrics,
            self._authorizer,
            control,
            self.fatal_failure,
            security,
        )
        stack.callback(parts.net.close)
        if parts.exporter is not None:
            stack.push_async_callback(parts.exporter.close)
        add_gauges(self.metrics, parts)
        stack.callback(LoopLoad(self.metrics, self.doors.clock).close)
        self.adopted_topics = await join(parts, cluster_id, adopt=self._adopt, stack=stack)
        if security is not None and security.has_scram:
            await parts.cluster.controller.ensure_scram_secret()
        await take_over(parts, stack)
        if self.config.kwire_metrics_listen or self.config.kwire_metrics_otel_endpoint:
            await self._serve_metrics(parts)
        accept(parts, stack)

    async def _serve_metrics(self, parts: BrokerParts) -> None:
        from kwire.server.metrics_endpoint.endpoint import MetricsEndpoint
        from kwire.server.metrics_endpoint.ends import LeaderEnds
        from kwire.server.metrics_endpoint.snapshot import Snapshots

        snapshots = Snapshots(self.metrics, parts, self.config.kwire_metrics_topics)
        broker_id, clock = parts.services.broker_id, self.doors.clock.monotonic
        ends = LeaderEnds(parts.cluster.peers, parts.storage.metadata, broker_id, clock)
        endpoint = MetricsEndpoint(self.config, snapshots, ends)
        self._stack.push_async_callback(endpoint.close)
        await endpoint.open()

    async def _security(self) -> BrokerSecurity | None:
        """The security of the listeners, unless all of them are PLAINTEXT."""
        if all(endpoint.security_protocol == "PLAINTEXT" for endpoint in self.config.endpoints()):
            return None
        from kwire.server.listeners.security import BrokerSecurity

        return await BrokerSecurity.load(self.config, self.doors.files).ready(self.doors, self._stack)

    def _warn(self, security: BrokerSecurity, network: Network) -> None:
        from kwire.server.listeners.warnings import security_warnings

        for line in security_warnings(self.config, security, network.sockets, self._authorizer.allows_all):
            _log.warning(line)

    async def _open_control(self) -> Control:
        from kwire.server.control import Control

        control = Control(self.config.data_dirs[0])
        await control.open(self.doors.files)
        self._stack.push_async_callback(control.close, self.doors.files)
        return control

    async def stop(self) -> None:
        """Send the pending responses, close the logs clean and leave the cluster. Harmless if the broker does not
        run."""
        await self._stack.aclose()

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> BrokerParts:
        """Everything this broker consists of. RuntimeError before `start`."""
        if self._parts is None:
            raise RuntimeError("this broker has not been started")
        return self._parts

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the first listener, as clients want it."""
        return self.parts.network.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that this broker is in."""
        return self.metadata.image.cluster_id

    @property
    def services(self) -> Services:
        """The parts as handlers see them."""
        return self.parts.services

    @property
    def registry(self) -> Registry:
        """The APIs that are served."""
        return self.parts.registry

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher of requests."""
        return self.parts.dispatcher

    @property
    def net(self) -> NetServer:
        """The listeners and connections."""
        return self.parts.net

    @property
    def store(self) -> MetadataStore:
        """The metadata store."""
        return self.parts.storage.store

    @property
    def metadata(self) -> MetadataCache:
        """The cluster's image and what follows it."""
        return self.parts.storage.metadata

    @property
    def logs(self) -> LogManager:
        """The logs."""
        return self.parts.storage.logs

    @property
    def membership(self) -> Membership:
        """The registration of this broker."""
        return self.parts.cluster.membership

    @property
    def controller(self) -> Controller:
        """The controller, active or not."""
        return self.parts.cluster.controller

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions."""
        return self.parts.cluster.replicas

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        return self.parts.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""
        return self.parts.transactions

    @property
    def control(self) -> Control | None:
        """Faults on demand, with ``kwire.test.control=true``."""
        return self.parts.control


def _property_name(keyword: str) -> str:
    """Names of listeners have underscores themselves: ``**{"listener.name.sasl_ssl.plain.sasl.jaas.config": ...}``."""
    return keyword if "." in keyword else keyword.replace("_", ".")


def _property_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)
