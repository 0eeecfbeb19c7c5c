"""Which brokers of one host get the replicas of new partitions (`kwire.balance.enable`). Pure.

Kafka's placement (`placement`) begins at a random broker, so that many small topics, or a few with one partition, are
spread by chance. Here each partition goes to the brokers that have least: of the topic first, then of all topics. Racks
do not matter, because all brokers are on one host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kwire.cluster.placement import check_factor, usable_brokers

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.store.keys import PartitionState


class EvenPlacement:
    """Places the partitions of one decision, which may create many topics."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._leads: Counter[int] = Counter()
        self._holds: Counter[int] = Counter()
        for topic in image.topics.values():
            self._count(state.replicas for state in topic.partitions)

    def place(self, partitions: int, factor: int, present: Sequence[PartitionState] = ()) -> list[tuple[int, ...]]:
        """The replicas of ``partitions`` new partitions of a topic that has those ``present``. Live brokers come first,
        and lead. INVALID_REPLICATION_FACTOR if there cannot be so many replicas."""
        usable = usable_brokers(self._image)
        live = check_factor(self._image, usable, factor)
        brokers = [broker.id for broker in usable]
        own_leads = Counter(state.replicas[0] for state in present)
        own_holds = Counter(replica for state in present for replica in state.replicas)

        def leads(broker: int) -> tuple[int, ...]:
            return broker not in live, own_leads[broker], self._leads[broker], own_holds[broker], broker

        def holds(broker: int) -> tuple[int, ...]:
            return broker not in live, own_holds[broker], self._holds[broker], broker

        placed = []
        for _ in range(partitions):
            leader = min(brokers, key=leads)
            others = sorted((each for each in brokers if each != leader), key=holds)
            replicas = (leader, *others[: factor - 1])
            own_leads[leader] += 1
            own_holds.update(replicas)
            self._count((replicas,))
            placed.append(replicas)
        return placed

    def _count(self, assignments: Iterable[Sequence[int]]) -> None:
        for replicas in assignments:
            self._leads[replicas[0]] += 1
            self._holds.update(replicas)
