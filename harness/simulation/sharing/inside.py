"""What only a simulation can see of share groups: which share partition of which broker serves a member, and who leads
the states. Nothing here changes anything.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from harness.simulation.sharing.history import Serving
from kwire.base.errors import KafkaError
from kwire.cluster.metadata.image import SHARE_STATE_TOPIC
from kwire.coordinator.runtime.java_hash import partition_for
from kwire.coordinator.share.coordinator import coordinator_key
from kwire.coordinator.share.records import SharePartitionKey

if TYPE_CHECKING:
    from harness.simulation.cluster import SimulatedCluster
    from kwire.cluster.metadata.image import ClusterImage, TopicImage


class Inside:
    """Looks into the brokers of a cluster for the share partitions of one group and topic."""

    def __init__(self, cluster: SimulatedCluster, group_id: str, topic_id: bytes) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topic_id = topic_id
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = itertools.count(1)

    def serving(self, address: tuple[str, int], partition: int) -> Serving:
        """Who serves a share partition at a broker, at this moment."""
        broker = next(each for each in self._cluster.brokers.values() if each.host == address[0]).broker
        if broker is None:
            return Serving()
        try:
            replica = broker.replicas.partition_by_id(self._topic_id, partition)
        except KafkaError:
            return Serving()
        behind = self._is_behind(broker.metadata.image, partition)
        found = broker.services.shares.partitions.find(self._group_id, (self._topic_id, partition))
        if found is None:
            return Serving(None, replica.leader_epoch, behind)
        if found not in self._numbers:
            self._numbers[found] = next(self._next)
        return Serving(self._numbers[found], replica.leader_epoch, behind)

    def _is_behind(self, image: ClusterImage, partition: int) -> bool:
        """Whether any broker knows of a later leader of the partition or of its share partition's state."""
        known = self._leader_epochs(image, partition)
        images = [each.broker.metadata.image for each in self._cluster.brokers.values() if each.broker is not None]
        later = [self._leader_epochs(each, partition) for each in images]
        return any(mine < other for each in later for mine, other in zip(known, each, strict=True))

    def _leader_epochs(self, image: ClusterImage, partition: int) -> tuple[int, int]:
        """Of the partition and of its share partition's state; -1 if there is none."""
        epochs = [-1, -1]
        topic, states = image.topics_by_id.get(self._topic_id), image.topics.get(SHARE_STATE_TOPIC)
        if topic is not None:
            epochs[0] = topic.partitions[partition].leader_epoch
        if states is not None:
            epochs[1] = states.partitions[self._state_index(states, partition)].leader_epoch
        return epochs[0], epochs[1]

    def _state_index(self, states: TopicImage, partition: int) -> int:
        """Which partition of the topic of states has the one of a share partition."""
        key = coordinator_key(SharePartitionKey(self._group_id, self._topic_id, partition))
        return partition_for(key, len(states.partitions))

    def lag(self, partition: int) -> int | None:
        """How many records the leader has still to deliver; None if no leader has loaded the share partition."""
        for each in self._cluster.brokers.values():
            if each.broker is not None:
                key = (self._topic_id, partition)
                found = each.broker.services.shares.partitions.find(self._group_id, key)
                if found is not None and found.machine is not None and found.partition.leading:
                    return found.lag
        return None

    def pruned(self) -> int:
        """How many records of the log of states its leaders have deleted."""
        starts: dict[int, int] = {}
        for each in self._cluster.brokers.values():
            topic = None if each.broker is None else each.broker.metadata.image.topics.get(SHARE_STATE_TOPIC)
            for index in range(len(topic.partitions) if topic is not None else 0):
                replica = None if each.broker is None else each.broker.replicas.get(SHARE_STATE_TOPIC, index)
                if replica is not None and replica.leading:
                    starts[index] = replica.log_start_offset
        return sum(starts.values())

    def state_leader(self, partition: int) -> int | None:
        """The leader epoch of the one broker that leads the state of a share partition; None if none or several do."""
        epochs = []
        for each in self._cluster.brokers.values():
            topic = None if each.broker is None else each.broker.metadata.image.topics.get(SHARE_STATE_TOPIC)
            if each.broker is None or topic is None:
                continue
            replica = each.broker.replicas.get(SHARE_STATE_TOPIC, self._state_index(topic, partition))
            if replica is not None and replica.leading:
                epochs.append(replica.leader_epoch)
        return epochs[0] if len(epochs) == 1 else None
