"""The committed offsets of one shard, and those that wait for the end of a transaction (KIP-98).

Changed only by applying records and transaction markers. Who may commit, read or delete: `offset_protocol`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.coordinator.groups.records import CommittedOffset

Partition = tuple[str, int]
"""Topic and partition index."""

_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = {}


class OffsetStore:
    """Group id -> topic -> partition -> `CommittedOffset`."""

    __slots__ = ("_groups", "_open")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._open: dict[int, dict[str, dict[Partition, CommittedOffset]]] = {}

    def find(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """The last committed position, or None."""
        return self._groups.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All positions of a group by topic and partition."""
        return self._groups.get(group_id, _NOTHING)

    def walk(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All positions of a group: topic, partition, position."""
        for topic, partitions in self.topics(group_id).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def __len__(self) -> int:
        """How many positions there are."""
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    def group_ids(self) -> list[str]:
        """The groups that have a position."""
        return list(self._groups)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Apply a commit."""
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Apply a tombstone; it ends what open transactions hold for the partition, too."""
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

    # --- transactions ----------------------------------------------------------------------------------------------

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Apply a commit inside a transaction: it counts once that is committed."""
        self._open.setdefault(producer_id, {}).setdefault(group_id, {})[topic, partition] = committed

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction's marker. A commit outside that came after the one inside stays."""
        for group_id, pending in self._open.pop(producer_id, {}).items():
            if not committed:
                continue
            for (topic, partition), position in pending.items():
                present = self.find(group_id, topic, partition)
                if present is None or present.record_offset < position.record_offset:
                    self.put(group_id, topic, partition, position)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction may still change this position."""
        return any((topic, partition) in groups.get(group_id, ()) for groups in self._open.values())

    def pending(self, group_id: str) -> Iterator[Partition]:
        """The partitions for which open transactions hold positions of a group; one may come more than once."""
        for groups in self._open.values():
            yield from groups.get(group_id, ())

    def pending_group_ids(self) -> Iterator[str]:
        """The groups that open transactions hold positions of; one may come more than once."""
        for groups in self._open.values():
            yield from groups

    def has_any(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is a position, or may be one when a transaction ends."""
        return self.find(group_id, topic, partition) is not None or self.is_pending(group_id, topic, partition)

    def partitions(self, group_id: str) -> list[Partition]:
        """All partitions for which there is a position, or may be one when a transaction ends."""
        committed = [(topic, partition) for topic, partition, _ in self.walk(group_id)]
        return list(dict.fromkeys((*committed, *self.pending(group_id))))

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether a transaction may still give this group positions."""
        return any(group_id in groups for groups in self._open.values())
