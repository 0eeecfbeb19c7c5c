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
from kwire.cluster import keys
from kwire.cluster.controller import write_states
from kwire.cluster.elections import with_isr
from kwire.cluster.store import Check, Conflict, StoreError, StoreUnavailable, Write

if TYPE_CHECKING:
    from kwire.cluster.image import ClusterImage, MetadataCache
    from kwire.cluster.keys import PartitionState
    from kwire.cluster.membership import ElectionRules
    from kwire.cluster.partition import Partition
    from kwire.cluster.store import MetadataStore

RETRY_S: Final = 0.2
CHANGES_PER_COMMIT: Final = 1000

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
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="write ISR")
            self._task.add_done_callback(self._over)

    async def close(self) -> None:
        """Write nothing more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._task = None
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
                pass

    async def _write(self, batch: dict[Partition, tuple[int, ...]]) -> None:
        """Write what still holds. What the image has by then tells each partition what became of it."""
        while True:
            image = self._metadata.image
            checks: dict[str, Check] = {}
            changed = self._plan(image, batch, checks)
            if not changed:
                return
            writes: dict[str, Write] = {}

            def write(
                key: str, value: bytes | None, checks: dict[str, Check] = checks, writes: dict[str, Write] = writes
            ) -> None:
                checks[key] = Check(key, self._metadata.version(key))
                writes[key] = Write(key, value)

            write_states(image, write, changed)
            try:
                revision = await self._store.commit(list(checks.values()), list(writes.values()))
            except Conflict as conflict:
                revision, _ = await self._store.read(conflict.key)
                await self._metadata.wait_for(revision)
                continue
            await self._metadata.wait_for(revision)
            return

    def _plan(
        self, image: ClusterImage, batch: dict[Partition, tuple[int, ...]], checks: dict[str, Check]
    ) -> dict[str, dict[int, PartitionState]]:
        mine = keys.broker_key(self._broker_id)
        checks[mine] = Check(mine, self._metadata.version(mine))
        changed: dict[str, dict[int, PartitionState]] = {}
        for partition, isr in batch.items():
            state = image.partition(partition.topic, partition.index)
            if state is None or not self._still_holds(image, partition, state, isr):
                partition.isr_refused()
                continue
            for member in isr:
                if member not in state.isr:
                    key = keys.broker_key(member)
                    checks[key] = Check(key, self._metadata.version(key))
            min_isr, _ = self._rules(image, partition.topic)
            changed.setdefault(partition.topic, {})[partition.index] = with_isr(state, isr, min_isr)
            _logger.info("ISR changes", topic=partition.topic, partition=partition.index, old=state.isr, new=isr)
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
