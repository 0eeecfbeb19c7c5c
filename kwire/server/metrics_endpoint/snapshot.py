"""What the metrics endpoint is told: all metrics of the registry, and facts of partitions and groups.

The facts are rows of values, not metrics by name: 10,000 partitions would have 100,000 names. `kwire.metrics` makes
series of them. Everything comes one after the other, so that the event loop serves clients between two slices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kwire.base.addresses import Address

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.server.parts import BrokerParts

METRIC, PARTITION, TOPIC, OFFSETS = "metric", "partition", "topic", "offsets"
"""Kinds of rows: a metric; a replica of this broker; a topic of the cluster; a group with committed offsets."""
_TOPIC_TAG: Final = re.compile(r"[,:]topic=(.+?)(?:,partition=\d+)?$")


class Snapshots:
    """Rows for the endpoint of one broker. ``topics``: only topics that match have rows of their own."""

    def __init__(self, metrics: MetricsRegistry, parts: BrokerParts, topics: str | None) -> None:
        self._metrics = metrics
        self._parts = parts
        self._topics = re.compile(topics) if topics else None

    def facts(self) -> dict[str, Any]:
        """The broker itself. ``addresses`` of all brokers: only from the broker that controls the cluster."""
        image = self._parts.storage.metadata.image
        broker_id = self._parts.services.broker_id
        return {
            "broker": broker_id,
            "pid": os.getpid(),
            "ready": broker_id in image.brokers,
            "brokers": len(image.brokers),
            "addresses": list(_addresses(image)) if self._parts.cluster.controller.active else [],
        }

    def rows(self) -> Iterator[list[Any] | None]:
        """All rows; None where a long computation gives way."""
        for item in self._metrics.items(rates=False):
            tag = _TOPIC_TAG.search(item[0]) if item is not None and self._topics is not None else None
            if tag is None or self._shows(tag[1]):
                yield item and [METRIC, *item]
        yield from self._partitions()
        yield from self._cluster_topics()
        yield from self._groups()

    def _shows(self, topic: str) -> bool:
        return self._topics is None or self._topics.fullmatch(topic) is not None

    def _partitions(self) -> Iterator[list[Any] | None]:
        """topic, partition, size in bytes, segments, start, end, last stable offset, high watermark; of a leader also
        the numbers of replicas and in-sync replicas, and `min.insync.replicas`."""
        metadata = self._parts.storage.metadata
        for partition in self._parts.cluster.replicas.partitions():
            if not self._shows(partition.topic):
                yield None
                continue
            log = partition.log
            row = [
                PARTITION,
                partition.topic,
                partition.index,
                log.size,
                len(log.segments),
                log.log_start_offset,
                log.log_end_offset,
                log.last_stable_offset,
                log.high_watermark,
            ]
            state = metadata.image.partition(partition.topic, partition.index)
            if partition.leading and state is not None:
                row += [len(state.replicas), len(state.isr), partition.effective_min_isr]
            yield row

    def _cluster_topics(self) -> Iterator[list[Any]]:
        """topic, and for each partition: leader, first replica, replicas, in-sync replicas. Only of the broker that
        controls the cluster, so that a cluster has each once."""
        if not self._parts.cluster.controller.active:
            return
        for name, topic in list(self._parts.storage.metadata.image.topics.items()):
            if self._shows(name):
                states = [
                    [each.leader, each.replicas[0] if each.replicas else -1, len(each.replicas), len(each.isr)]
                    for each in topic.partitions
                ]
                yield [TOPIC, name, states]

    def _groups(self) -> Iterator[list[Any]]:
        """group, members, committed offsets (topic, partition, offset)."""
        for group, members, offsets in self._parts.groups.committed():
            yield [OFFSETS, group, members, [each for each in offsets if self._shows(each[0])]]


def _addresses(image: ClusterImage) -> Iterator[tuple[int, str]]:
    """Each live broker's id, and the address of its first listener."""
    for broker in image.sorted_brokers():
        first = next(iter(broker.endpoints.values()))
        yield broker.id, str(Address(first.host, first.port))
