"""`BrokerParts`: everything that a broker consists of, and how it is put together. Starting it: `lifecycle`.

The storage is open and the listeners are bound before, so that every part is complete when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from kwire.base.config.cordoning import names_of_directories
from kwire.base.logging import get_logger
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.failover import Failover
from kwire.cluster.controller.membership import Membership, Registration
from kwire.cluster.metadata.features import for_clients, supported
from kwire.cluster.metadata.image import SHARE_STATE_TOPIC
from kwire.cluster.replication.fetcher_manager import ReplicaFetchers
from kwire.cluster.replication.isr_writer import IsrWriter
from kwire.cluster.replication.peers import Peers
from kwire.cluster.replication.replica_manager import ReplicaManager
from kwire.cluster.replication.throttles import Throttles
from kwire.coordinator.groups.coordinator import GroupCoordinator
from kwire.coordinator.share.coordinator import ShareCoordinator
from kwire.coordinator.transactions.coordinator import TransactionCoordinator
from kwire.handlers.context import Quotas, RequestContext, Services, Shares, Telemetry
from kwire.handlers.data.fetch.sessions import FetchSessions
from kwire.net.connection import ListenerSetup
from kwire.net.server import NetServer
from kwire.server.dispatch import Dispatcher
from kwire.server.log_dir_failures import OfflineReplicas
from kwire.server.session_loss import SessionLossHandler

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.connector import Connector
    from kwire.cluster.metadata.features import Range
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.coordinator.share.persister import Persister
    from kwire.handlers.context import Authorizer
    from kwire.handlers.registry import Registry
    from kwire.handlers.share.partitions import SharePartitions
    from kwire.handlers.telemetry.clients import TelemetryClients
    from kwire.quotas.connections import ConnectionRates
    from kwire.quotas.managers import QuotaManagers
    from kwire.server.control import Control
    from kwire.server.listeners.security import BrokerSecurity
    from kwire.server.log_dir_failures import FatalFailure
    from kwire.server.network import Network
    from kwire.server.storage import Storage
    from kwire.server.telemetry.exporter import OtlpExporter


class ClusterParts(NamedTuple):
    """This broker's place in the cluster: its registration, the controller and the partitions."""

    controller: Controller
    membership: Membership
    peers: Peers
    replicas: ReplicaManager
    offline_replicas: OfflineReplicas
    failover: Failover

    @classmethod
    def create(
        cls,
        doors: Doors,
        storage: Storage,
        network: Network,
        metrics: MetricsRegistry,
        features: Mapping[str, Range],
        on_session_loss: Callable[[], None],
        connector: Connector | None,
    ) -> ClusterParts:
        """Nothing is started yet. ``features``: those that this broker supports. ``connector``: how a secured listener
        of other brokers is reached."""
        config, store, metadata, logs = storage.config, storage.store, storage.metadata, storage.logs
        broker_id = config.node_id
        controller = Controller(doors, config, store, metadata, broker_id)
        rules = controller.leaders.election_rules
        is_zookeeper = bool(config.zookeeper_connect)
        membership = Membership(
            doors,
            store,
            metadata,
            broker_id,
            Registration(
                network.endpoints,
                config.broker_rack,
                features,
                log_dirs=names_of_directories(config.data_dirs),
                cordoned=config.cordoned_log_dirs,
            ),
            lease_ms=config.zookeeper_session_timeout_ms if is_zookeeper else config.broker_session_timeout_ms,
            rules=rules,
            on_loss=on_session_loss,
        )
        listener = config.inter_broker_listener()
        peers = Peers(doors, lambda: metadata.image, broker_id, listener, storage.on_refused, connector)
        throttles = Throttles(config, metadata, broker_id, doors.clock.monotonic)
        throttles.add_metrics(metrics)
        fetchers = ReplicaFetchers(config, peers, broker_id, lambda: membership.broker_epoch, throttles.follower)
        metrics.gauge("kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica", fetchers.max_lag)
        isr_writer = IsrWriter(store, metadata, broker_id, rules, metrics)
        replicas = ReplicaManager(config, logs, metadata, broker_id, metrics, doors, fetchers, isr_writer, throttles)
        offline_replicas = OfflineReplicas(controller, metadata, logs, replicas, broker_id)
        return cls(
            controller, membership, peers, replicas, offline_replicas, Failover(controller, membership, metadata)
        )


class Coordinators(NamedTuple):
    """The coordinators of groups, transactions and share groups: for the partitions of their topics that this broker
    leads."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share: ShareCoordinator

    @classmethod
    def create(cls, doors: Doors, storage: Storage, cluster: ClusterParts, metrics: MetricsRegistry) -> Coordinators:
        """Nothing is loaded yet."""
        config, metadata, replicas = storage.config, storage.metadata, cluster.replicas
        groups = GroupCoordinator(doors, config, replicas, metadata)
        groups.add_metrics(metrics)

        async def allocate_producer_ids() -> range:
            return await cluster.controller.allocate_producer_ids()

        transactions = TransactionCoordinator(
            doors, config, replicas, metadata, groups, allocate_producer_ids, cluster.peers
        )
        transactions.add_metrics(metrics)
        share = ShareCoordinator(doors, config, replicas, metadata)
        share.add_metrics(metrics)
        return cls(groups, transactions, share)


class BrokerParts(NamedTuple):
    """The parts of one broker. ``control`` is for tests only: with ``kwire.test.control=true``."""

    storage: Storage
    network: Network
    cluster: ClusterParts
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_coordinator: ShareCoordinator
    services: Services
    registry: Registry
    dispatcher: Dispatcher
    net: NetServer
    session_loss: SessionLossHandler
    exporter: OtlpExporter | None
    control: Control | None

    @classmethod
    def create(
        cls,
        doors: Doors,
        storage: Storage,
        network: Network,
        registry: Registry,
        metrics: MetricsRegistry,
        authorizer: Authorizer,
        control: Control | None,
        fatal: FatalFailure,
        security: BrokerSecurity | None,
    ) -> BrokerParts:
        """Put the broker together; nothing is started yet. ``security``: None if all listeners are PLAINTEXT."""

        def on_session_loss() -> None:
            session_loss.on_loss()  # made below: there is no session before the broker joins

        features = supported(storage.config.kwire_test_supported_features)
        connector = _connector(doors, security)
        cluster = ClusterParts.create(doors, storage, network, metrics, features, on_session_loss, connector)
        coordinators = Coordinators.create(doors, storage, cluster, metrics)
        exporter = _exporter(doors, storage.config)
        services = _services(
            doors, storage, cluster, coordinators, registry, metrics, authorizer, for_clients(features), exporter
        )
        stands = None if authorizer.allows_all or storage.is_alone else cluster.membership.stands
        dispatcher = Dispatcher(services, registry, network.advertised, stands)
        net = _net_server(services, network, security, dispatcher, storage.metadata, connector)
        session_loss = SessionLossHandler(
            cluster.membership, cluster.replicas, net.close_connections, fatal, storage.logs.is_offline
        )
        return cls(
            storage=storage,
            network=network,
            cluster=cluster,
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            share_coordinator=coordinators.share,
            services=services,
            registry=registry,
            dispatcher=dispatcher,
            net=net,
            session_loss=session_loss,
            exporter=exporter,
            control=control,
        )


def _services(
    doors: Doors,
    storage: Storage,
    cluster: ClusterParts,
    coordinators: Coordinators,
    registry: Registry,
    metrics: MetricsRegistry,
    authorizer: Authorizer,
    features: Mapping[str, Range],
    exporter: OtlpExporter | None,
) -> Services:
    """The broker as handlers see it. ``features``: those that clients know of."""
    config, metadata = storage.config, storage.metadata
    persister = _share_persister(doors, storage, cluster, coordinators.share, lambda: services)
    services = Services(
        doors=doors,
        config=config,
        controller=cluster.controller,
        peers=cluster.peers,
        replicas=cluster.replicas,
        logs=storage.logs,
        groups=coordinators.groups,
        transactions=coordinators.transactions,
        share_coordinator=coordinators.share,
        share_persister=persister,
        metrics=metrics,
        advertised_apis=registry.advertised(with_telemetry=exporter is not None),
        authorizer=authorizer,
        quotas=client_quotas(doors, config, metadata, metrics),
        telemetry=client_telemetry(doors, metadata, metrics, exporter),
        shares=share_partitions(doors, config, metadata, metrics, persister),
        fetch_sessions=FetchSessions(doors, config.max_incremental_fetch_session_cache_slots),
        broker_id=config.node_id,
        supported_features=features,
        image_source=lambda: metadata.image,
        log_failure=_log_failure,
    )
    return services


def _share_persister(
    doors: Doors,
    storage: Storage,
    cluster: ClusterParts,
    coordinator: ShareCoordinator,
    services: Callable[[], Services],
) -> Callable[[], Persister]:
    """What keeps the states of share groups, made with the first call."""
    config = storage.config

    async def create_share_state_topic() -> None:
        from kwire.handlers.forwarding import auto_create

        await auto_create(RequestContext(services()), [SHARE_STATE_TOPIC])

    @cache
    def make() -> Persister:
        from kwire.coordinator.share.persister import DefaultStatePersister, NoOpStatePersister

        if not config.group_share_persister_class_name:
            return NoOpStatePersister()
        return DefaultStatePersister(
            doors, coordinator, cluster.peers, storage.metadata, config.node_id, create_share_state_topic
        )

    return make


def _net_server(
    services: Services,
    network: Network,
    security: BrokerSecurity | None,
    dispatcher: Dispatcher,
    metadata: MetadataCache,
    connector: Connector | None,
) -> NetServer:
    """What accepts and serves connections, on sockets that are bound already."""
    doors, config = services.doors, services.config

    def on_disconnect(connection_id: str) -> None:
        services.telemetry.disconnected(connection_id)
        services.shares.disconnected(connection_id)

    setups = _setups(doors, config, security, network, dispatcher, metadata, connector)
    rates = cache(partial(connection_rates, doors, config, metadata, services.metrics))
    return NetServer(doors, network.settings, network.sockets, setups, get_logger("kwire.net"), rates, on_disconnect)


def client_quotas(doors: Doors, config: KafkaConfig, metadata: MetadataCache, metrics: MetricsRegistry) -> Quotas:
    """The quotas of clients, which follow the cluster's image."""

    def make() -> QuotaManagers:
        from kwire.quotas.managers import QuotaManagers
        from kwire.quotas.sensors import Windows

        managers = QuotaManagers(
            doors.clock.perf_counter,
            Windows(config.quota_window_num, config.quota_window_size_seconds),
            Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds),
        )
        managers.add_metrics(metrics)
        return managers

    quotas = Quotas(make)
    metadata.add_listener(quotas.follow)
    return quotas


def client_telemetry(
    doors: Doors, metadata: MetadataCache, metrics: MetricsRegistry, exporter: OtlpExporter | None
) -> Telemetry:
    """The telemetry of clients, by the subscriptions of the cluster's image."""

    def make() -> TelemetryClients:
        from kwire.handlers.telemetry.clients import TelemetryClients

        clock = doors.clock
        clients = TelemetryClients(
            lambda: metadata.image.configs, exporter, doors.random, lambda: int(clock.monotonic() * 1000)
        )
        clients.add_metrics(metrics)
        return clients

    return Telemetry(make)


def share_partitions(
    doors: Doors,
    config: KafkaConfig,
    metadata: MetadataCache,
    metrics: MetricsRegistry,
    persister: Callable[[], Persister],
) -> Shares:
    """The share partitions that this broker leads, by the group configurations of the cluster's image."""

    def make() -> SharePartitions:
        from kwire.cluster.store.keys import ConfigResource
        from kwire.handlers.share.partitions import SharePartitions
        from kwire.handlers.share.settings import ShareSettings, settings_of

        def settings(group_id: str) -> ShareSettings:
            return settings_of(metadata.image.config(ConfigResource.GROUP, group_id), config)

        return SharePartitions(persister, settings, doors.clock, config.group_share_max_share_sessions, metrics)

    shares = Shares(make)
    metadata.add_listener(shares.follow)
    return shares


def _exporter(doors: Doors, config: KafkaConfig) -> OtlpExporter | None:
    url = config.kwire_telemetry_otlp_endpoint
    if not url:
        return None
    from kwire.server.telemetry.exporter import OtlpExporter

    return OtlpExporter(doors, url, config.node_id)


def connection_rates(
    doors: Doors, config: KafkaConfig, metadata: MetadataCache, metrics: MetricsRegistry
) -> ConnectionRates:
    """The rates of new connections, which follow the configuration and the cluster's image. Made with the first
    connection."""
    from kwire.quotas.connections import ConnectionRates
    from kwire.quotas.sensors import Windows

    listeners = list(dict.fromkeys(endpoint.listener for endpoint in config.endpoints()))
    protected = config.inter_broker_listener() if len(listeners) > 1 else None
    windows = Windows(config.quota_window_num, config.quota_window_size_seconds)
    rates = ConnectionRates(doors.clock.monotonic, windows, protected)

    def follow(_: frozenset[str]) -> None:
        rates.limit_broker(config.max_connection_creation_rate)
        for listener in listeners:
            rates.limit_listener(listener, config.get_for_listener(listener, "max.connection.creation.rate"))

    follow(frozenset())
    config.on_change(follow)
    metadata.add_listener(rates.follow)
    rates.add_metrics(metrics, listeners)
    return rates


def _connector(doors: Doors, security: BrokerSecurity | None) -> Connector | None:
    if security is None or security.inter_broker.protocol == "PLAINTEXT":
        return None
    from kwire.cluster.connector import Connector

    return Connector(doors, security.inter_broker)


def _setups(
    doors: Doors,
    config: KafkaConfig,
    security: BrokerSecurity | None,
    network: Network,
    dispatcher: Dispatcher,
    metadata: MetadataCache,
    connector: Connector | None,
) -> dict[str, ListenerSetup]:
    if security is not None:
        from kwire.server.listeners.setups import listener_setups

        return listener_setups(doors, config, security, dispatcher, metadata, connector)
    setup = ListenerSetup(dispatcher, config.socket_request_max_bytes)
    return {bound.endpoint.listener: setup for bound in network.sockets}


def _log_failure(where: str, error: BaseException) -> None:
    get_logger("kwire.handlers").error("unexpected failure", where=where, exc_info=error)
