"""The gauges of a broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.codec.protocol import ApiKey
from kwire.server.gauges.connections import connection_counts
from kwire.server.gauges.elections import ElectionMeters
from kwire.server.gauges.partitions import cluster_counts, own_counts
from kwire.server.gauges.quorum import quorum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager
    from kwire.server.parts import BrokerParts

_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_STARTING, _RUNNING, _LEAVING = 1, 3, 6  # Kafka's codes of BrokerState


def add_gauges(metrics: MetricsRegistry, parts: BrokerParts) -> None:
    """Register the gauges; each is computed when it is read."""
    gauge, replicas, metadata = metrics.gauge, parts.cluster.replicas, parts.storage.metadata
    controller, broker_id = parts.cluster.controller, parts.services.broker_id
    metrics.source(lambda: connection_counts(parts.net))
    metrics.source(lambda: quorum(metadata))
    gauge("kafka.network:type=RequestChannel,name=RequestQueueSize", lambda: len(parts.dispatcher.pending))
    gauge("kafka.server:type=KafkaServer,name=BrokerState", lambda: broker_state(metadata, broker_id))
    gauge(_CONTROLLER + "ActiveControllerCount", lambda: int(controller.active))
    gauge(_CONTROLLER + "ActiveBrokerCount", lambda: len(metadata.image.brokers))
    gauge(_CONTROLLER + "FencedBrokerCount", lambda: _fenced(metadata))
    sessions = parts.services.fetch_sessions
    gauge("kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions", lambda: len(sessions))
    gauge(
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
        lambda: sessions.partitions,
    )
    metrics.walk(lambda: own_counts(replicas, metadata))
    metrics.walk(lambda: cluster_counts(metadata, broker_id))
    ElectionMeters(metrics, metadata, broker_id)
    _add_purgatory_gauges(metrics, parts)
    _add_directory_gauges(metrics, parts.storage.logs.directories)
    _add_cleaner_gauges(metrics, parts.storage.logs)
    flushes = parts.storage.logs.env.flush_us
    metrics.source(lambda: [("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", flushes.snapshot(0))])


def broker_state(metadata: MetadataCache, broker_id: int) -> int:
    """Kafka's code of this broker's state."""
    broker = metadata.image.brokers.get(broker_id)
    if broker is None:
        return _STARTING
    return _LEAVING if broker.leaving else _RUNNING


def _add_purgatory_gauges(metrics: MetricsRegistry, parts: BrokerParts) -> None:
    for name, key in (("Produce", ApiKey.PRODUCE), ("Fetch", ApiKey.FETCH)):
        for figure in ("PurgatorySize", "NumDelayedOperations"):  # the same here: what is complete does not wait
            full_name = f"kafka.server:type=DelayedOperationPurgatory,name={figure},delayedOperation={name}"
            metrics.gauge(full_name, partial(_waiting, parts, key))


def _waiting(parts: BrokerParts, key: ApiKey) -> int:
    return sum(exchange.api_key == key for exchange in parts.dispatcher.pending.values())


def _add_directory_gauges(metrics: MetricsRegistry, directories: Sequence[LogDirectory]) -> None:
    metrics.gauge(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        lambda: sum(not directory.online for directory in directories),
    )
    metrics.gauge(
        "kafka.log:type=LogManager,name=CordonedLogDirectoryCount",
        lambda: sum(directory.cordoned for directory in directories),
    )
    for directory in directories:
        where = f"logDirectory={directory.path}"
        metrics.gauge(f"kafka.log:type=LogManager,name=LogDirectoryOffline,{where}", partial(_is_offline, directory))
        metrics.gauge(f"kafka.log:type=LogManager,name=LogDirectoryCordoned,{where}", partial(_is_cordoned, directory))


def _is_offline(directory: LogDirectory) -> int:
    return int(not directory.online)


def _is_cordoned(directory: LogDirectory) -> int:
    return int(directory.cordoned)


def _fenced(metadata: MetadataCache) -> int:
    image = metadata.image
    return len(image.registered) - len(image.brokers)


def _add_cleaner_gauges(metrics: MetricsRegistry, logs: LogManager) -> None:
    gauge, cleaner = metrics.gauge, logs.cleaner
    for name, figure in (
        ("cleaner-recopy-percent", lambda: int(100 * cleaner.recopy_ratio)),
        ("max-buffer-utilization-percent", lambda: int(100 * cleaner.worst("utilization"))),
        ("max-clean-time-secs", lambda: int(cleaner.worst("seconds"))),
        ("max-compaction-delay-secs", lambda: cleaner.figures.max_compaction_delay_ms // 1000),
        ("DeadThreadCount", lambda: cleaner.dead_threads),
    ):
        gauge(f"kafka.log:type=LogCleaner,name={name}", figure)
    manager = "kafka.log:type=LogCleanerManager"
    gauge(f"{manager},name=max-dirty-percent", lambda: int(100 * cleaner.figures.max_dirty_ratio))
    gauge(f"{manager},name=time-since-last-run-ms", cleaner.since_last_run_ms)
    for directory in logs.directories:
        tag = f"logDirectory={directory.path}"
        gauge(f"{manager},name=uncleanable-partitions-count,{tag}", partial(cleaner.uncleanable_count, directory.path))
        gauge(f"{manager},name=uncleanable-bytes,{tag}", partial(cleaner.uncleanable_bytes, directory.path))
