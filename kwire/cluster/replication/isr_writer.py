"""`IsrWriter`: writes a leader's ISR changes to the store by compare-and-set.

A change is written only if this broker's registration is unchanged, the partition is as in the image, and every added
replica is registered under the broker epoch of its last fetch (KIP-903: a broker that restarted with fewer records must
not join the ISR because of fetches before the restart). A refused change is dropped; the leader checks again at the
next fetch. If the store is unavailable, the outcome is unknown: the leader waits for the members of both the old and
the new ISR, and the change is tried again.

What lives elsewhere: when the ISR should change (`partition`), changes because a broker fails or leaves (`leaders`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.base.metrics import metric_name
from kwire.cluster.controller.elections import with_isr
from kwire.cluster.controller.plan import SHARDS_MAX, ChangedStates, Plan
from kwire.cluster.store import keys
from kwire.cluster.store.keys import SHARD_PARTITIONS
from kwire.cluster.store.store import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from kwire.base.metrics import MetricsRegistry
    from kwire.base.topic_partition import TopicPartition
    from kwire.cluster.controller.elections import RulesOfTopic
    from kwire.cluster.metadata.image import ClusterImage, MetadataCache
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.store.keys import PartitionState
    from kwire.cluster.store.store import MetadataStore

RETRY_S: Final = 0.2
CHANGES_PER_COMMIT: Final = 1000
LOGGED_ONE_BY_ONE_MAX: Final = 10

_logger = get_logger("kwire.cluster.isr")


class IsrWriter:
    """Collects proposals of partitions and writes many at a time. All methods are called on the event loop."""

    def __init__(
        self,
        store: MetadataStore,
        metadata: MetadataCache,
        broker_id: int,
        rules: RulesOfTopic,
        metrics: MetricsRegistry,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._rules = rules
        self._expansions, self._shrinks, self._refusals = (
            metrics.meter(metric_name("kafka.server", "ReplicaManager", name))
            for name in ("IsrExpandsPerSec", "IsrShrinksPerSec", "FailedIsrUpdatesPerSec")
        )
        self._proposed: dict[Partition, tuple[int, ...]] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Queue a partition's proposal (`partition.ProposeIsr`)."""
        self._proposed[partition] = isr
        if self._task is None or self._task.done():  # a task that is done does not see this proposal any more
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="write ISR")
            self._task.add_done_callback(self._log_failure)

    async def close(self) -> None:
        """Stop writing."""
        self._proposed.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("ISR changes stopped", exc_info=error)

    async def _write_all(self) -> None:
        while self._proposed:
            batch = self._batch()
            for partition in batch:  # before writing: a proposal that arrives meanwhile is another change
                del self._proposed[partition]
            try:
                await self._write(batch)
            except StoreUnavailable as error:
                _logger.warning("ISR cannot be changed, will retry", error=str(error))
                self._proposed = {**batch, **self._proposed}
                await asyncio.sleep(RETRY_S)
            except StoreError:  # this broker lost its registration, and with it all leaderships
                for partition in batch:
                    partition.isr_refused()

    def _batch(self) -> dict[Partition, tuple[int, ...]]:
        """The next proposals that one commit may write."""
        shards: dict[TopicPartition, None] = {}
        batch: dict[Partition, tuple[int, ...]] = {}
        for partition, isr in self._proposed.items():
            shards[partition.topic, partition.index // SHARD_PARTITIONS] = None
            if len(shards) > SHARDS_MAX or len(batch) == CHANGES_PER_COMMIT:
                break
            batch[partition] = isr
        return batch

    async def _write(self, batch: dict[Partition, tuple[int, ...]]) -> None:
        """Write the changes that are still valid. The partitions learn the outcome from the image."""
        while True:
            plan = Plan(self._metadata)
            changed = self._changes(plan, batch)
            if not changed:
                return
            plan.check(keys.broker_key(self._broker_id))
            plan.write_states(changed)
            if await plan.commit(self._store):
                self._count(plan.image, changed)
                return

    def _count(self, image: ClusterImage, changed: ChangedStates) -> None:
        for topic, states in changed.items():
            for index, state in states.items():
                growth = len(state.isr) - len(image.topics[topic].partitions[index].isr)
                self._expansions.count += growth > 0
                self._shrinks.count += growth < 0

    def _changes(self, plan: Plan, batch: dict[Partition, tuple[int, ...]]) -> ChangedStates:
        """The changes that are still valid, with checks that the added replicas' registrations do not change."""
        changed: ChangedStates = {}
        for partition, isr in batch.items():
            state = plan.image.partition(partition.topic, partition.index)
            if state is None or not self._is_valid(plan.image, partition, state, isr):
                self._refusals.count += 1
                partition.isr_refused()
                continue
            for member in isr:
                if member not in state.isr:
                    plan.check(keys.broker_key(member))
            min_isr = self._rules(plan.image, partition.topic).min_isr
            changed.setdefault(partition.topic, {})[partition.index] = with_isr(state, isr, min_isr)
            if len(batch) <= LOGGED_ONE_BY_ONE_MAX:
                _logger.info("ISR changes", topic=partition.topic, partition=partition.index, old=state.isr, new=isr)
        if changed and len(batch) > LOGGED_ONE_BY_ONE_MAX:
            _logger.info("ISR changes", partitions=sum(map(len, changed.values())))
        return changed

    def _is_valid(self, image: ClusterImage, partition: Partition, state: PartitionState, isr: tuple[int, ...]) -> bool:
        if (state.leader, state.leader_epoch, state.partition_epoch) != (
            self._broker_id,
            partition.leader_epoch,
            partition.partition_epoch,
        ) or self._broker_id not in image.brokers:
            return False
        for member in isr:
            if member not in state.isr:
                broker = image.brokers.get(member)
                if broker is None or broker.leaving or broker.epoch != partition.follower_epoch(member):
                    return False
        return True
