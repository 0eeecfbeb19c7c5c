"""The fetchers of a broker, one for each broker that leads what this one follows (`replica_fetcher`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.cluster.replication.fetcher import Fetcher
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.peers import Peers
    from kwire.cluster.replication.throttles import ReplicationQuota


class ReplicaFetchers:
    """All fetchers of a broker. ``epoch``: the broker epoch of its registration; ``quota``: that of throttled
    replicas."""

    def __init__(
        self, config: KafkaConfig, peers: Peers, broker_id: int, epoch: Callable[[], int], quota: ReplicationQuota
    ) -> None:
        self.config = config
        self.peers = peers
        self.broker_id = broker_id
        self.epoch = epoch
        self.quota = quota
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._closed = False

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from the leader that it has now; stop if there is none to follow."""
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
            from kwire.cluster.replication.fetcher import Fetcher  # a broker without others never needs it

            fetcher = self._fetchers[leader] = Fetcher(self, leader)
        fetcher.add(partition)

    def forget(self, partition: Partition) -> None:
        """Fetch a partition no more."""
        leader = self._leaders.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].remove(partition)

    async def close(self) -> None:
        """Stop all, for good."""
        self._closed = True
        fetchers, self._fetchers = self._fetchers, {}
        self._leaders.clear()
        for fetcher in fetchers.values():
            await fetcher.close()
