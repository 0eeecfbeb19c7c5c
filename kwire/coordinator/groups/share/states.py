"""Which partitions of a share group the share coordinators know: initialising, initialised, or being deleted.

A partition is assigned to members only when its state has been written (`initialized`). Pure values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

Partitions = Mapping[bytes, Collection[int]]
"""Topic id -> partitions."""


class NamedPartitions(NamedTuple):
    """Partitions of a topic, and its name when the record was written."""

    name: str
    partitions: frozenset[int]


class PartitionStates(NamedTuple):
    """See the module. ``deleting``: topic id -> name."""

    initializing: Mapping[bytes, NamedPartitions]
    initialized: Mapping[bytes, NamedPartitions]
    deleting: Mapping[bytes, str]

    def beginning(self, topics: Mapping[bytes, NamedPartitions]) -> PartitionStates:
        """The states while these partitions are being initialised, too."""
        deleting = {topic: name for topic, name in self.deleting.items() if topic not in topics}
        return PartitionStates(_with(self.initializing, topics), self.initialized, deleting)

    def completed(self, partitions: Partitions) -> PartitionStates:
        """The states when the share coordinators know these partitions. Those that are not being initialised any more
        (because the topic was deleted, for example) are left out."""
        there = {
            topic: NamedPartitions(known.name, frozenset(known.partitions.intersection(partitions[topic])))
            for topic, known in self.initializing.items()
            if topic in partitions
        }
        return PartitionStates(
            _without(self.initializing, partitions),
            _with(self.initialized, {topic: one for topic, one in there.items() if one.partitions}),
            self.deleting,
        )

    def given_up(self, partitions: Partitions) -> PartitionStates:
        """The states when these partitions could not be initialised. A later heartbeat tries again."""
        return self._replace(initializing=_without(self.initializing, partitions))

    def ending(self) -> PartitionStates:
        """The states while the share coordinators are asked to forget all partitions."""
        known = {**self.initializing, **self.initialized}
        return PartitionStates({}, {}, {**self.deleting, **{topic: one.name for topic, one in known.items()}})

    def forgetting(self, topics: Mapping[bytes, str]) -> PartitionStates:
        """The states while the share coordinators are asked to forget these topics."""
        initialized = {topic: one for topic, one in self.initialized.items() if topic not in topics}
        return PartitionStates(self.initializing, initialized, {**self.deleting, **topics})

    def forgotten(self, topics: Collection[bytes]) -> PartitionStates:
        """The states when the share coordinators have forgotten these topics."""
        return self._replace(deleting={topic: name for topic, name in self.deleting.items() if topic not in topics})

    def without_topics(self, topics: Collection[bytes]) -> PartitionStates:
        """The states when topics have been deleted."""
        return PartitionStates(
            {topic: one for topic, one in self.initializing.items() if topic not in topics},
            {topic: one for topic, one in self.initialized.items() if topic not in topics},
            {topic: name for topic, name in self.deleting.items() if topic not in topics},
        )


NO_STATES: Final = PartitionStates(MappingProxyType({}), MappingProxyType({}), MappingProxyType({}))
"""No partition is known."""


def _with(
    known: Mapping[bytes, NamedPartitions], more: Mapping[bytes, NamedPartitions]
) -> dict[bytes, NamedPartitions]:
    merged = dict(known)
    for topic, (name, partitions) in more.items():
        before = merged[topic].partitions if topic in merged else frozenset()
        merged[topic] = NamedPartitions(name, before | partitions)
    return merged


def _without(known: Mapping[bytes, NamedPartitions], gone: Partitions) -> dict[bytes, NamedPartitions]:
    left = {}
    for topic, (name, partitions) in known.items():
        remaining = partitions.difference(gone.get(topic, ()))
        if remaining:
            left[topic] = NamedPartitions(name, remaining)
    return left
