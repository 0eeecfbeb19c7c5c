"""All share partitions and share sessions of a broker: what `Services.shares` makes at the first use.

A share partition is made when a member first reads it, and dropped when it cannot be used any more
(`share.leader_partition`) or when its group has no session left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import chain
from typing import TYPE_CHECKING, Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.share.leader_partition import Environment, LeaderSharePartition, ReadsAndWrites
from kwire.handlers.share.metrics import ShareMetrics
from kwire.handlers.share.sessions import PartitionKey, ShareSession, ShareSessions
from kwire.handlers.share.settings import ShareSettings

if TYPE_CHECKING:
    from kwire.base.doors import Clock
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.replication.partition import Partition


class SharePartitions:
    """``sessions`` of the members, and the share partitions that they read, by group, topic id and partition index."""

    def __init__(
        self,
        persister: Callable[[], ReadsAndWrites],
        settings: Callable[[str], ShareSettings],
        clock: Clock,
        sessions_max: int,
        metrics: MetricsRegistry,
    ) -> None:
        self.metrics = ShareMetrics(metrics)
        self.sessions = ShareSessions(sessions_max, self.release, self._unload, self.metrics.evictions)
        self.settings = settings
        self._environment = Environment(persister, settings, clock, self.metrics, self._spawn, self._dropped)
        self._partitions: dict[str, dict[PartitionKey, LeaderSharePartition]] = {}
        self._leaving: dict[tuple[str, PartitionKey], LeaderSharePartition] = {}
        """Dropped share partitions whose last changes are not written yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.metrics.show(self.sessions, lambda: chain.from_iterable(map(dict.values, self._partitions.values())))

    def __len__(self) -> int:
        return sum(map(len, self._partitions.values()))

    def find(self, group_id: str, key: PartitionKey) -> LeaderSharePartition | None:
        """A share partition that is in use."""
        return self._partitions.get(group_id, {}).get(key)

    def obtain(self, group_id: str, key: PartitionKey, partition: Partition) -> LeaderSharePartition:
        """A share partition, made if need be. KafkaError (NOT_LEADER_OR_FOLLOWER, ...): this broker does not lead the
        partition."""
        found = self.find(group_id, key)
        if found is not None and found.partition is partition and found.leader_epoch == partition.leader_epoch:
            partition.require_leader()
            return found
        partition.require_leader()
        if found is not None:
            found.drop(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        former = self._leaving.get((group_id, key))
        if former is not None and former.leader_epoch != partition.leader_epoch:
            former = None  # the share coordinator refuses what it writes after the state was read
        made = LeaderSharePartition(group_id, key[0], partition, self._environment, former)
        self._partitions.setdefault(group_id, {})[key] = made
        return made

    def release(self, session: ShareSession) -> None:
        """A session has ended: release what its member has acquired."""
        for key in session.partitions:
            found = self.find(session.key.group_id, key)
            if found is not None:
                found.release(session.key.member_id)

    def close(self) -> None:
        """End everything: the broker stops, or `share.version` is 0 again."""
        self.sessions.close_all()
        for group_id in list(self._partitions):
            self._unload(group_id)

    def _unload(self, group_id: str) -> None:
        for partition in list(self._partitions.get(group_id, {}).values()):
            partition.drop(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _dropped(self, dropped: LeaderSharePartition) -> None:
        partitions = self._partitions.get(dropped.group_id, {})
        key = (dropped.topic_id, dropped.partition.index)
        if partitions.get(key) is dropped:
            del partitions[key]
            if not partitions:
                del self._partitions[dropped.group_id]

        if dropped.is_writing:
            self._leaving[dropped.group_id, key] = dropped
            self._spawn(self._leave(dropped, key))

    async def _leave(self, dropped: LeaderSharePartition, key: PartitionKey) -> None:
        await dropped.written()
        if self._leaving.get((dropped.group_id, key)) is dropped:
            del self._leaving[dropped.group_id, key]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="share state")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
