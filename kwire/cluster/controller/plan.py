"""`Plan`: the checks and writes of one decision, collected first and then made in one commit.

Every written key is checked to be unchanged since the image; more keys can be checked. If the store refuses a commit,
make a new plan from the newest image. What lives elsewhere: the decisions (`controller`, `leaders`, `membership`,
`isr_writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from kwire.cluster.metadata import features
from kwire.cluster.metadata.image import SHARD_PARTITIONS, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.store import Check, Conflict, MetadataStore, Write

if TYPE_CHECKING:
    from kwire.base.topic_partition import TopicPartition

ChangedStates = dict[str, dict[int, PartitionState]]
"""New states of partitions, by topic name and index."""


WRITES_MAX: Final = 500
BYTES_MAX: Final = 256 * 1024
"""What one commit of many entries writes at most; ZooKeeper refuses commits of about 1 MiB, and brokers apply one
between requests."""

SHARDS_MAX: Final = 200
"""Shards of partitions in one commit: at most about half a megabyte with three replicas."""

K = TypeVar("K")
V = TypeVar("V")


def chunks(
    changes: Mapping[K, V], bytes_of: Callable[[K, V], int], writes_max: int | None = None
) -> Iterator[dict[K, V]]:
    """Changes in parts that one commit may write (of ``writes_max``, by default `WRITES_MAX`); ``bytes_of`` one of
    them."""
    most = WRITES_MAX if writes_max is None else writes_max
    chunk: dict[K, V] = {}
    size = 0
    for key, change in changes.items():
        length = bytes_of(key, change)
        if len(chunk) >= most or (chunk and size + length > BYTES_MAX):
            yield chunk
            chunk, size = {}, 0
        chunk[key] = change
        size += length
    if chunk:
        yield chunk


def parts(partitions: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Partitions, in their order, in parts that one commit may write."""
    part: list[TopicPartition] = []
    shards: dict[TopicPartition, None] = {}
    for topic, index in partitions:
        shard = (topic, index // SHARD_PARTITIONS)
        if shard not in shards and len(shards) == SHARDS_MAX:
            yield part
            part, shards = [], {}
        shards[shard] = None
        part.append((topic, index))
    if part:
        yield part


def value_bytes(_key: str, value: bytes) -> int:
    """For `chunks` of values by key."""
    return len(value)


class Plan:
    """Based on the image as of its construction. Only `commit` can fail."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.image = metadata.image
        self._checks: dict[str, Check] = {}
        self._writes: dict[str, Write] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the plan writes nothing."""
        return not self._writes

    @property
    def writes(self) -> int:
        """How many keys the plan writes."""
        return len(self._writes)

    def check(self, key: str) -> None:
        """Commit only if the key has not changed since the image."""
        self._checks[key] = Check(key, self._metadata.version(key))

    def write(self, key: str, value: bytes | None, session: int | None = None) -> None:
        """Set (or delete) a key that has not changed since the image. ``session``: the key vanishes with it."""
        self.check(key)
        self._writes[key] = Write(key, value, session)

    def write_states(self, changed: Mapping[str, Mapping[int, PartitionState]]) -> None:
        """Write the shards of changed partitions; ``changed`` has the new states by topic name and index."""
        for name, states in changed.items():
            topic = self.image.topics[name]
            for shard in sorted({index // SHARD_PARTITIONS for index in states}):
                start = shard * SHARD_PARTITIONS
                old = topic.partitions[start : start + SHARD_PARTITIONS]
                new = [states.get(start + offset, state) for offset, state in enumerate(old)]
                self.write(keys.shard_key(topic.id, shard), keys.pack_shard(new))

    def finalise_access(self) -> None:
        """Finalise the feature level that what is written needs, if it is not finalised yet. UNSUPPORTED_VERSION if a
        registered broker does not know it."""
        if self.image.features.get(features.ACCESS_VERSION) or not self._writes_access():
            return
        brokers = {broker.id: broker.features for broker in self.image.registered.values()}
        self.write(keys.FEATURES, keys.pack(levels=features.with_access(self.image.features, brokers)))

    def _writes_access(self) -> bool:
        return any(each.value is not None and each.key.startswith(keys.ACCESS) for each in self._writes.values())

    async def commit(self, store: MetadataStore) -> bool:
        """Commit the plan; False if a check failed. Either way the image has caught up when this returns.
        `StoreUnavailable` (the commit may have been made), `SessionLost`."""
        try:
            revision = await store.commit(list(self._checks.values()), list(self._writes.values()))
        except Conflict as conflict:
            revision, _ = await store.read(conflict.key)
            await self._metadata.wait_for(revision)
            return False
        await self._metadata.wait_for(revision)
        return True
