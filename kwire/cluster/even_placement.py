"""Which brokers of one host get the replicas of new partitions (`kwire.balance.enable`). Pure.

Kafka's placement (`placement`) begins at a random broker, so that many small topics, or a few with one partition, are
spread by chance. Here each partition goes to the brokers that have least: of the topic first, then of all topics. Racks
do not matter, because all brokers are on one host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kwire.cluster.placement import check_factor, usable_brokers

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage, TopicImage
    from kwire.cluster.store.keys import PartitionState


class ReplicaCounts:
    """How many partitions each broker leads and holds. They follow from image to image: a request for very many topics
    is several decisions, each of which would otherwise count the partitions of all topics."""

    def __init__(self) -> None:
        self.leads: Counter[int] = Counter()
        self.holds: Counter[int] = Counter()
        self._topics: Mapping[str, TopicImage] = {}

    def follow(self, image: ClusterImage) -> None:
        """Count what has changed since the last image."""
        before, after = self._topics, image.topics
        if before is after:
            return
        for name, topic in before.items():
            if after.get(name) is not topic:
                self._add(topic, -1)
        for name, topic in after.items():
            if before.get(name) is not topic:
                self._add(topic, 1)
        self._topics = after

    def _add(self, topic: TopicImage, number: int) -> None:
        for state in topic.partitions:
            self.leads[state.replicas[0]] += number
            for broker in state.replicas:
                self.holds[broker] += number


class EvenPlacement:
    """Places the partitions of one decision, which may create many topics. ``counts`` are those of earlier images, if
    there are any."""

    def __init__(self, image: ClusterImage, counts: ReplicaCounts | None = None) -> None:
        self._image = image
        counts = counts or ReplicaCounts()
        counts.follow(image)
        self._leads, self._holds = counts.leads.copy(), counts.holds.copy()

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
