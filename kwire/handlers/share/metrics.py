"""Kafka's metrics of share groups at leaders of partitions: requests, acknowledgements, sessions, records in flight.

The lag of a share partition (KIP-1226) is a metric only here (``kwire.server``); Kafka shows it only with the offsets
of a share group. Kafka's histograms of locks (``FetchLockTimeMs``, ``FetchLockRatio``) and of acquiring are missing:
kwire has no locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kwire.base.metrics import metric_name
from kwire.share.values import Acknowledgement, AcknowledgeType

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.replication.partition import Partition
    from kwire.handlers.share.sessions import ShareSessions
    from kwire.share.partition import SharePartition

_SERVER: Final = "kafka.server"


class Measured(Protocol):
    """A share partition of this broker. ``machine`` is None while it is being loaded; ``expired_locks``: how many
    records came back because their lock had ended."""

    group_id: str
    partition: Partition
    machine: SharePartition | None
    expired_locks: int

    @property
    def lag(self) -> int:
        """How many records are still to be delivered and acknowledged."""


class ShareMetrics:
    """The metrics of one broker. ``load_us`` is how long the states of share partitions take to read, ``evictions`` the
    sessions that ended with their connection."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._metrics = metrics
        name = metric_name(_SERVER, "ShareGroupMetrics", "PartitionLoadTimeMs")
        self.load_us = metrics.histogram(name, unit=1000)
        self.evictions = metrics.meter(metric_name(_SERVER, "ShareSessionCache", "ShareSessionEvictionsPerSec"))
        self._acknowledged = {
            kind.value: metrics.meter(
                metric_name(
                    _SERVER, "ShareGroupMetrics", "RecordAcknowledgementsPerSec", ackType=kind.name.capitalize()
                )
            )
            for kind in AcknowledgeType
            if kind is not AcknowledgeType.GAP
        }

    def show(self, sessions: ShareSessions, partitions: Callable[[], Iterable[Measured]]) -> None:
        """Show the numbers of sessions and of their partitions, and what each share partition has in flight."""
        name = partial(metric_name, _SERVER, "ShareSessionCache")
        self._metrics.gauge(name("ShareSessionsCount"), lambda: len(sessions))
        self._metrics.gauge(name("SharePartitionsCount"), lambda: sessions.partitions)
        self._metrics.source(lambda: _in_flight(partitions()))

    def fetched(self, topics: Iterable[str]) -> None:
        """A request reads these topics."""
        for topic in topics:
            self._metrics.topic(topic).total_share_fetch_requests += 1

    def fetch_failed(self, topics: Iterable[str]) -> None:
        """Partitions of these topics could not be read."""
        for topic in topics:
            self._metrics.topic(topic).failed_share_fetch_requests += 1

    def acknowledging(self, topics: Iterable[str]) -> None:
        """A request acknowledges records of these topics."""
        for topic in topics:
            self._metrics.topic(topic).total_share_acknowledgement_requests += 1

    def acknowledge_failed(self, topics: Iterable[str]) -> None:
        """Acknowledgements of these topics have failed."""
        for topic in topics:
            self._metrics.topic(topic).failed_share_acknowledgement_requests += 1

    def acknowledged(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Acknowledgements were applied."""
        for first, last, types in acknowledgements:
            if len(types) == 1:
                self._count(types[0], last - first + 1)
            else:
                for kind in types:
                    self._count(kind, 1)

    def _count(self, kind: int, records: int) -> None:
        meter = self._acknowledged.get(kind)
        if meter is not None:  # a gap is nothing that a member says about a record
            meter.count += records


def _in_flight(partitions: Iterable[Measured]) -> Iterator[tuple[str, dict[str, float]]]:
    for each in partitions:
        tags = {"group": each.group_id, "topic": each.partition.topic, "partition": each.partition.index}
        machine = each.machine
        if machine is not None:
            counts = {
                "InFlightMessageCount": machine.in_flight_records,
                "InFlightBatchCount": machine.in_flight_batches,
            }
            for name, count in counts.items():
                yield metric_name(_SERVER, "SharePartitionMetrics", name, **tags), {"Value": count}
            yield metric_name("kwire.server", "SharePartitionMetrics", "Lag", **tags), {"Value": each.lag}
        name = metric_name(_SERVER, "SharePartitionMetrics", "AcquisitionLockTimeoutPerSec", **tags)
        yield name, {"Count": each.expired_locks}
