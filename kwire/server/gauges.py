"""Metrics of the broker as a whole: what is looked up when somebody asks, and how late the event loop is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.server.broker import Broker

LAG_INTERVAL_S: Final = 5.0


class LoopLag:
    """Measures by how much timers are late: the event loop's equivalent of idle network threads."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._loop = asyncio.get_running_loop()
        self._histogram = metrics.histogram("kwire.server:type=EventLoop,name=LagMs", unit=1000)
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._measure)

    def _measure(self) -> None:
        late_s = self._loop.time() - self._timer.when()  # uvloop's timers may be a little early
        self._histogram.record(max(0, int(late_s * 1_000_000)))
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._measure)

    def close(self) -> None:
        """Measure no more."""
        self._timer.cancel()


def add_gauges(broker: Broker) -> None:
    """Register what the broker's parts can tell at any time."""
    gauge = broker.metrics.gauge
    gauge("kafka.server:type=socket-server-metrics,name=connection-count", lambda: len(broker.net.connections))
    gauge("kafka.network:type=RequestChannel,name=RequestQueueSize", lambda: len(broker.dispatcher.pending))
    gauge("kafka.server:type=ReplicaManager,name=PartitionCount", lambda: len(broker.replicas.partitions()))
    gauge(
        "kafka.server:type=ReplicaManager,name=LeaderCount",
        lambda: sum(partition.leading for partition in broker.replicas.partitions()),
    )
    gauge("kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions", lambda: _under_replicated(broker))
    gauge("kafka.controller:type=KafkaController,name=ActiveControllerCount", lambda: int(broker.controller.active))
    gauge("kafka.controller:type=KafkaController,name=ActiveBrokerCount", lambda: len(broker.metadata.image.brokers))
    gauge("kafka.controller:type=KafkaController,name=FencedBrokerCount", lambda: _away(broker))
    gauge("kafka.controller:type=KafkaController,name=GlobalTopicCount", lambda: len(broker.metadata.image.topics))
    gauge("kafka.server:type=ReplicaManager,name=OfflineReplicaCount", lambda: _offline_replicas(broker))
    gauge("kafka.controller:type=KafkaController,name=OfflinePartitionsCount", lambda: _offline_partitions(broker))
    _add_directory_gauges(broker)
    _add_cleaner_gauges(broker)


def _add_directory_gauges(broker: Broker) -> None:
    gauge, directories = broker.metrics.gauge, broker.logs.directories
    gauge(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        lambda: sum(not directory.online for directory in directories),
    )
    for directory in directories:
        name = f"kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory={directory.path}"
        gauge(name, partial(_is_offline, directory))


def _is_offline(directory: LogDirectory) -> int:
    return int(not directory.online)


def _away(broker: Broker) -> int:
    image = broker.metadata.image
    return len(image.registered) - len(image.brokers)


def _offline_replicas(broker: Broker) -> int:
    states = [state for topic in broker.metadata.image.topics.values() for state in topic.partitions]
    mine = broker.config.node_id
    return sum(mine in state.replicas and state.is_offline(mine, broker.metadata.image.brokers) for state in states)


def _offline_partitions(broker: Broker) -> int:
    topics = broker.metadata.image.topics.values()
    return sum(state.leader not in broker.metadata.image.brokers for topic in topics for state in topic.partitions)


def _add_cleaner_gauges(broker: Broker) -> None:
    gauge, cleaner = broker.metrics.gauge, broker.logs.cleaner
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
    for directory in broker.logs.directories:
        tag = f"logDirectory={directory.path}"
        gauge(f"{manager},name=uncleanable-partitions-count,{tag}", partial(cleaner.uncleanable_count, directory.path))
        gauge(f"{manager},name=uncleanable-bytes,{tag}", partial(cleaner.uncleanable_bytes, directory.path))


def _under_replicated(broker: Broker) -> int:
    image = broker.metadata.image
    states = [image.partition(each.topic, each.index) for each in broker.replicas.partitions() if each.leading]
    return sum(len(state.isr) < len(state.replicas) for state in states if state is not None)
