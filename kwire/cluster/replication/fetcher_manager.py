"""`ReplicaFetchers`: all fetchers of a broker, one for each broker that leads a partition followed here.

What lives elsewhere: the fetching itself (`replication.fetcher`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.cluster.replication.fetcher import Fetcher
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.peers import Peers
    from kwire.cluster.replication.throttles import ReplicationQuota


class ReplicaFetchers:
    """Assigns partitions to fetchers. ``broker_epoch`` gives the epoch of this broker's registration; ``quota``
    limits the replication of throttled followers."""

    def __init__(
        self,
        config: KafkaConfig,
        peers: Peers,
        broker_id: int,
        broker_epoch: Callable[[], int],
        quota: ReplicationQuota,
    ) -> None:
        self._config = config
        self._peers = peers
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._closed = False

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its present leader; stop fetching it if there is no leader to follow."""
        leader = partition.leader if partition.following and not self._closed else -1
        former = self._leaders.get(partition, -1)
        if former not in (-1, leader):
            self._fetchers[former].remove(partition)
            del self._leaders[partition]
        if leader == -1:
            return
        self._leaders[partition] = leader
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = self._fetcher(leader)
        fetcher.add(partition)

    def _fetcher(self, leader: int) -> Fetcher:
        from kwire.cluster.replication.fetcher import Fetcher, FetcherSettings  # a single broker never needs them

        connect = partial(self._peers.connect, leader, f"broker-{self._broker_id}-fetcher-{leader}")
        settings = FetcherSettings.of(self._config, self._broker_id)
        return Fetcher(settings, leader, connect, self._broker_epoch, self._quota)

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        leader = self._leaders.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].remove(partition)

    def max_lag(self) -> int:
        """The records by which this broker's replicas are behind their leaders, at most (Kafka's metric MaxLag)."""
        return max((fetcher.max_lag() for fetcher in self._fetchers.values()), default=0)

    async def close(self) -> None:
        """Stop all fetchers for good."""
        self._closed = True
        fetchers, self._fetchers = self._fetchers, {}
        self._leaders.clear()
        for fetcher in fetchers.values():
            await fetcher.close()
