"""`Plan`: what one decision would check and write in the store, gathered first and committed at once.

Every write is checked to be based on what the image has; more can be checked. Whoever decides makes a new plan from the
newest image when a commit was refused. What lives elsewhere: what is decided (`controller`, `leaders`, `membership`,
`isr_writer`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cluster.metadata.image import SHARD_PARTITIONS, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.store import Check, Conflict, MetadataStore, Write

ChangedStates = dict[str, dict[int, PartitionState]]
"""New states of partitions, by topic name and index."""


class Plan:
    """Based on the image as it is when the plan is made; `write` refuses nothing, the store has the last word."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.image = metadata.image
        self._checks: dict[str, Check] = {}
        self._writes: dict[str, Write] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written."""
        return not self._writes

    def check(self, key: str) -> None:
        """Only if the key is still as the image has it."""
        self._checks[key] = Check(key, self._metadata.version(key))

    def write(self, key: str, value: bytes | None, session: int | None = None) -> None:
        """Set (or delete) a key, only if it is still as the image has it. ``session``: it vanishes with that one."""
        self.check(key)
        self._writes[key] = Write(key, value, session)

    def write_states(self, changed: Mapping[str, Mapping[int, PartitionState]]) -> None:
        """Write the shards in which partitions change; ``changed`` has the new states by topic name and index."""
        for name, states in changed.items():
            topic = self.image.topics[name]
            for shard in sorted({index // SHARD_PARTITIONS for index in states}):
                start = shard * SHARD_PARTITIONS
                old = topic.partitions[start : start + SHARD_PARTITIONS]
                new = [states.get(start + offset, state) for offset, state in enumerate(old)]
                self.write(keys.shard_key(topic.id, shard), keys.pack_shard(new))

    async def commit(self, store: MetadataStore) -> bool:
        """Whether the plan came true; if not, the image has caught up with what prevented it. `StoreUnavailable` (it
        may have come true), `SessionLost`."""
        try:
            revision = await store.commit(list(self._checks.values()), list(self._writes.values()))
        except Conflict as conflict:
            revision, _ = await store.read(conflict.key)
            await self._metadata.wait_for(revision)
            return False
        await self._metadata.wait_for(revision)
        return True
