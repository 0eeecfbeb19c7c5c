"""Metrics of the broker as a whole: gauges that are computed when they are read, and the event loop's lag."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager
    from kwire.server.parts import BrokerParts

LAG_INTERVAL_S: Final = 5.0


class LoopLag:
    """Measures how late timers are: the event loop's equivalent of how busy network threads are."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._loop = asyncio.get_running_loop()
        self._histogram = metrics.histogram("kwire.server:type=EventLoop,name=LagMs", unit=1000)
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._measure)

    def _measure(self) -> None:
        late_s = self._loop.time() - self._timer.when()  # uvloop's timers may be a little early
        self._histogram.record(max(0, int(late_s * 1_000_000)))
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._measure)

    def close(self) -> None:
        """Stop measuring."""
        self._timer.cancel()


def add_gauges(metrics: MetricsRegistry, parts: BrokerParts) -> None:
    """Register the gauges; each is computed when it is read."""
    gauge, replicas, metadata = metrics.gauge, parts.cluster.replicas, parts.storage.metadata
    controller = parts.cluster.controller
    gauge("kafka.server:type=socket-server-metrics,name=connection-count", lambda: len(parts.net.connections))
    gauge("kafka.network:type=RequestChannel,name=RequestQueueSize", lambda: len(parts.dispatcher.pending))
    gauge("kafka.server:type=ReplicaManager,name=PartitionCount", lambda: len(replicas.partitions()))
    gauge(
        "kafka.server:type=ReplicaManager,name=LeaderCount",
        lambda: sum(partition.leading for partition in replicas.partitions()),
    )
    gauge(
        "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions", lambda: _under_replicated(replicas, metadata)
    )
    gauge("kafka.controller:type=KafkaController,name=ActiveControllerCount", lambda: int(controller.active))
    gauge("kafka.controller:type=KafkaController,name=ActiveBrokerCount", lambda: len(metadata.image.brokers))
    gauge("kafka.controller:type=KafkaController,name=FencedBrokerCount", lambda: _fenced(metadata))
    gauge("kafka.controller:type=KafkaController,name=GlobalTopicCount", lambda: len(metadata.image.topics))
    gauge(
        "kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
        lambda: _offline_replicas(metadata, parts.services.broker_id),
    )
    gauge("kafka.controller:type=KafkaController,name=OfflinePartitionsCount", lambda: _offline_partitions(metadata))
    _add_directory_gauges(metrics, parts.storage.logs.directories)
    _add_cleaner_gauges(metrics, parts.storage.logs)


def _add_directory_gauges(metrics: MetricsRegistry, directories: Sequence[LogDirectory]) -> None:
    metrics.gauge(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        lambda: sum(not directory.online for directory in directories),
    )
    for directory in directories:
        name = f"kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory={directory.path}"
        metrics.gauge(name, partial(_is_offline, directory))


def _is_offline(directory: LogDirectory) -> int:
    return int(not directory.online)


def _fenced(metadata: MetadataCache) -> int:
    image = metadata.image
    return len(image.registered) - len(image.brokers)


def _offline_replicas(metadata: MetadataCache, broker_id: int) -> int:
    states = [state for topic in metadata.image.topics.values() for state in topic.partitions]
    return sum(broker_id in state.replicas and state.is_offline(broker_id, metadata.image.brokers) for state in states)


def _offline_partitions(metadata: MetadataCache) -> int:
    topics = metadata.image.topics.values()
    return sum(state.leader not in metadata.image.brokers for topic in topics for state in topic.partitions)


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


def _under_replicated(replicas: ReplicaManager, metadata: MetadataCache) -> int:
    image = metadata.image
    states = [image.partition(each.topic, each.index) for each in replicas.partitions() if each.leading]
    return sum(len(state.isr) < len(state.replicas) for state in states if state is not None)
