"""Metrics that are looked up when somebody asks, under Kafka's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.server.broker import Broker


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
    gauge("kafka.controller:type=KafkaController,name=GlobalTopicCount", lambda: len(broker.metadata.image.topics))


def _under_replicated(broker: Broker) -> int:
    image = broker.metadata.image
    states = [image.partition(each.topic, each.index) for each in broker.replicas.partitions() if each.leading]
    return sum(len(state.isr) < len(state.replicas) for state in states if state is not None)
