"""Counts of partitions: those that this broker has, and all of the cluster.

All counts of a kind are made in one walk, because a broker may have many thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage, MetadataCache
    from kwire.cluster.replication.replica_manager import ReplicaManager

REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
GIVE_WAY_EVERY: Final = 32
"""Partitions that are counted in one go."""


def own_counts(replicas: ReplicaManager, metadata: MetadataCache) -> Iterator[tuple[str, int] | None]:
    """What Kafka's ReplicaManager counts. All but PartitionCount are of the partitions that this broker leads. The walk
    gives way (`kwire.base.metrics.Walk`)."""
    image = metadata.image
    partitions = replicas.partitions()
    leading = under_replicated = under_min_isr = at_min_isr = reassigning = 0
    for number, each in enumerate(partitions):
        if not number % GIVE_WAY_EVERY:
            yield None
        state = image.partition(each.topic, each.index) if each.leading else None
        if state is None:
            continue
        leading += 1
        in_sync, minimum = len(state.isr), each.effective_min_isr
        under_replicated += in_sync < len(state.replicas)
        under_min_isr += in_sync < minimum
        at_min_isr += in_sync == minimum
        reassigning += bool(state.adding or state.removing)
    yield REPLICAS + "PartitionCount", len(partitions)
    yield REPLICAS + "LeaderCount", leading
    yield REPLICAS + "UnderReplicatedPartitions", under_replicated
    yield REPLICAS + "UnderMinIsrPartitionCount", under_min_isr
    yield REPLICAS + "AtMinIsrPartitionCount", at_min_isr
    yield REPLICAS + "ReassigningPartitions", reassigning


def cluster_counts(metadata: MetadataCache, broker_id: int) -> Iterator[tuple[str, int] | None]:
    """What Kafka's controller counts, and this broker's offline replicas: the same until the image changes. The walk
    gives way."""
    image = metadata.image
    counts = image.notes.get(cluster_counts)
    if counts is None:
        counts = image.notes[cluster_counts] = yield from _counted(image, broker_id)
    yield from counts


def _counted(image: ClusterImage, broker_id: int) -> Generator[None, None, list[tuple[str, int]]]:
    live = image.brokers
    partitions = offline = not_preferred = offline_replicas = 0
    for topic in image.topics.values():
        for state in topic.partitions:
            if not partitions % GIVE_WAY_EVERY:
                yield None
            partitions += 1
            offline += state.leader not in live
            not_preferred += state.leader != state.replicas[0]
            offline_replicas += broker_id in state.replicas and state.is_offline(broker_id, live)
    return [
        (CONTROLLER + "GlobalTopicCount", len(image.topics)),
        (CONTROLLER + "GlobalPartitionCount", partitions),
        (CONTROLLER + "OfflinePartitionsCount", offline),
        (CONTROLLER + "PreferredReplicaImbalanceCount", not_preferred),
        (REPLICAS + "OfflineReplicaCount", offline_replicas),
    ]
