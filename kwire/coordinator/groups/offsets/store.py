"""The committed offsets of one shard, and the pending offsets of open transactions (KIP-98).

They change only by applying records and transaction markers. `offsets.protocol` checks who may commit, read or delete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from kwire.base.futures import at_once
from kwire.base.topic_partition import TopicPartition
from kwire.coordinator.groups.records import CommittedOffset
from kwire.coordinator.runtime.long_operations import EstimatedPace, Steps

ENDED_US: Final = 2
"""What it takes to commit or drop a pending offset, about."""

_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = {}


class OffsetStore:
    """Group id -> topic -> partition -> `CommittedOffset`."""

    __slots__ = ("_groups", "_open")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._open: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}

    def find(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition, or None."""
        return self._groups.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All committed offsets of a group, by topic and partition."""
        return self._groups.get(group_id, _NOTHING)

    def walk(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All committed offsets of a group, as (topic, partition, committed offset)."""
        for topic, partitions in self.topics(group_id).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def __len__(self) -> int:
        """The number of committed offsets."""
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    def has_more(self, group_id: str, count: int) -> bool:
        """Whether a group has more committed offsets than ``count``."""
        topics = self._groups.get(group_id)
        return topics is not None and sum(map(len, topics.values())) > count

    def group_ids(self) -> list[str]:
        """The groups with committed offsets."""
        return list(self._groups)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Apply a commit."""
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Apply a tombstone, which also deletes the partition's pending offsets in open transactions."""
        for groups in self._open.values():
            groups.get(group_id, {}).pop((topic, partition), None)
        topics = self._groups.get(group_id)
        if topics is None:
            return
        partitions = topics.get(topic)
        if partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group_id]

    # -- transactions --------------------------------------------------------------------------------------------------

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Apply a commit inside a transaction. It takes effect when the transaction commits."""
        self._open.setdefault(producer_id, {}).setdefault(group_id, {})[topic, partition] = committed

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker. A later commit outside the transaction prevails over one inside."""
        at_once(self.end_transaction_in_steps(producer_id, committed=committed))

    def has_more_pending(self, producer_id: int, count: int) -> bool:
        """Whether the open transaction of a producer holds more pending offsets than ``count``."""
        groups = self._open.get(producer_id)
        return groups is not None and sum(map(len, groups.values())) > count

    def end_transaction_in_steps(self, producer_id: int, *, committed: bool) -> Steps:
        """`end_transaction` for very many offsets. They are let go in steps, too, if they are not committed."""
        pace = EstimatedPace()
        for group_id, pending in self._open.pop(producer_id, {}).items():
            for topic, partition in list(pending):
                offset = pending.pop((topic, partition))
                if committed:
                    present = self.find(group_id, topic, partition)
                    if present is None or present.record_offset < offset.record_offset:
                        self.put(group_id, topic, partition, offset)
                if pace.spent(ENDED_US):
                    yield

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds a pending offset for the partition."""
        return any((topic, partition) in groups.get(group_id, ()) for groups in self._open.values())

    def pending(self, group_id: str) -> Iterator[TopicPartition]:
        """The partitions with pending offsets of a group. A partition may appear more than once."""
        for groups in self._open.values():
            yield from groups.get(group_id, ())

    def pending_group_ids(self) -> Iterator[str]:
        """The groups with pending offsets. A group may appear more than once."""
        for groups in self._open.values():
            yield from groups

    def has_any(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether the partition has a committed or a pending offset."""
        return self.find(group_id, topic, partition) is not None or self.is_pending(group_id, topic, partition)

    def partitions(self, group_id: str) -> Iterator[TopicPartition]:
        """All partitions with a committed or a pending offset of the group, each once."""
        for topic, partition, _ in self.walk(group_id):
            yield topic, partition
        for topic, partition in dict.fromkeys(self.pending(group_id)):
            if self.find(group_id, topic, partition) is None:
                yield topic, partition

    def partitions_of(self, group_id: str, topics: Collection[str]) -> list[TopicPartition]:
        """Those of some topics, without going through all others."""
        known = self.topics(group_id)
        shorter, longer = (topics, known) if len(topics) < len(known) else (known, topics)
        names = [each for each in shorter if each in longer]
        committed = [(topic, partition) for topic in names for partition in known[topic]]
        pending = [each for each in self.pending(group_id) if each[0] in topics]
        return list(dict.fromkeys((*committed, *pending)))

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether an open transaction holds pending offsets of the group."""
        return any(group_id in groups for groups in self._open.values())
