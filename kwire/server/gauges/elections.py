"""`ElectionMeters`: elections of leaders that were not in sync, counted by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cluster.controller.elections import NO_LEADER

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import ClusterImage, Delta, MetadataCache, TopicImage

_STATS: Final = "kafka.controller:type=ControllerStats,name="


class ElectionMeters:
    """Compares each image with the one before. Only the controller counts, so that sums over brokers are right."""

    def __init__(self, metrics: MetricsRegistry, metadata: MetadataCache, broker_id: int) -> None:
        self._broker_id = broker_id
        self._topics: dict[str, TopicImage] = metadata.image.topics
        self._unclean = metrics.meter(_STATS + "UncleanLeaderElectionsPerSec")
        self._eligible = metrics.meter(_STATS + "ElectionFromEligibleLeaderReplicasPerSec")
        metadata.add_listener(self._on_image)

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        before, self._topics = self._topics, image.topics
        if image.controller_id != self._broker_id:
            return
        for name in delta.changed:
            old, new = before.get(name), image.topics.get(name)
            if old is not None and new is not None and old.id == new.id:
                self._compare(old, new)

    def _compare(self, before: TopicImage, after: TopicImage) -> None:
        for old, new in zip(before.partitions, after.partitions, strict=False):  # there may be new partitions
            if new is old or new.leader in (NO_LEADER, old.leader) or new.leader in old.isr:
                continue
            if new.leader in old.elr:
                self._eligible.count += 1
            else:
                self._unclean.count += 1
