"""A leader's changes of the ISR, written to the store by compare-and-set.

A change is written only if this broker is still registered as it was, the partition is as the image has it, and every
replica that comes in is registered under the very broker epoch with which it fetched (KIP-903: a broker that died and
came back with less cannot be let in by what it had told before). What was refused is dropped: the leader looks again at
the next fetch. Where the store does not answer, nothing is known: the leader keeps waiting for old and new members
alike, and the change is tried again.

What lives elsewhere: when the ISR should change (`partition`), changes because of brokers that go (`controller`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.cluster.controller.elections import with_isr
from kwire.cluster.controller.plan import ChangedStates, Plan
from kwire.cluster.store import keys
from kwire.cluster.store.store import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from kwire.cluster.controller.membership import ElectionRules
    from kwire.cluster.metadata.image import ClusterImage, MetadataCache
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.store.keys import PartitionState
    from kwire.cluster.store.store import MetadataStore

RETRY_S: Final = 0.2
CHANGES_PER_COMMIT: Final = 1000
TOLD_ONE_BY_ONE: Final = 10

_logger = get_logger("kwire.cluster.isr")


class IsrWriter:
    """Takes changes from partitions and writes them, many at a time. All methods belong to the event loop."""

    def __init__(self, store: MetadataStore, metadata: MetadataCache, broker_id: int, rules: ElectionRules) -> None:
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._rules = rules
        self._wanted: dict[Partition, tuple[int, ...]] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """`ProposeIsr` of the partitions here."""
        self._wanted[partition] = isr
        if self._task is None or self._task.done():  # done and not told yet: it does not see this one any more
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="write ISR")
            self._task.add_done_callback(self._over)

    async def close(self) -> None:
        """Write nothing more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("ISR changes stopped", exc_info=error)

    async def _write_all(self) -> None:
        while self._wanted:
            batch = dict(list(self._wanted.items())[:CHANGES_PER_COMMIT])
            for partition in batch:  # before writing: what is asked for meanwhile is another change
                del self._wanted[partition]
            try:
                await self._write(batch)
            except StoreUnavailable as error:
                _logger.warning("ISR cannot be changed now", error=str(error))
                self._wanted = {**batch, **self._wanted}
                await asyncio.sleep(RETRY_S)
            except StoreError:  # this registration is over: so is everything that this broker led with it
                for partition in batch:
                    partition.isr_refused()

    async def _write(self, batch: dict[Partition, tuple[int, ...]]) -> None:
        """Write what still holds. What the image has by then tells each partition what became of it."""
        while True:
            plan = Plan(self._metadata)
            changed = self._changes(plan, batch)
            if not changed:
                return
            plan.check(keys.broker_key(self._broker_id))
            plan.write_states(changed)
            if await plan.commit(self._store):
                return

    def _changes(self, plan: Plan, batch: dict[Partition, tuple[int, ...]]) -> ChangedStates:
        """The changes that still hold; those that come in are checked to be who they were."""
        changed: ChangedStates = {}
        for partition, isr in batch.items():
            state = plan.image.partition(partition.topic, partition.index)
            if state is None or not self._still_holds(plan.image, partition, state, isr):
                partition.isr_refused()
                continue
            for member in isr:
                if member not in state.isr:
                    plan.check(keys.broker_key(member))
            min_isr, _ = self._rules(plan.image, partition.topic)
            changed.setdefault(partition.topic, {})[partition.index] = with_isr(state, isr, min_isr)
            if len(batch) <= TOLD_ONE_BY_ONE:
                _logger.info("ISR changes", topic=partition.topic, partition=partition.index, old=state.isr, new=isr)
        if changed and len(batch) > TOLD_ONE_BY_ONE:
            _logger.info("ISR changes", partitions=sum(map(len, changed.values())))
        return changed

    def _still_holds(
        self, image: ClusterImage, partition: Partition, state: PartitionState, isr: tuple[int, ...]
    ) -> bool:
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
