"""A topology as members send it and as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire.coordinator.runtime.java_hash import hash_map_order


class TopicInfo(NamedTuple):
    """An internal topic. 0 partitions: as many as its subtopologies need; ``replication_factor`` 0: the broker's
    `default.replication.factor`."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics of a subtopology that must have equally many partitions: positions in its lists of topics."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of the topology that is connected by more than topics. It has a task per partition of what it reads."""

    id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def inputs(self) -> list[str]:
        """The topics that the subtopology reads: source topics, then repartition topics."""
        return [*self.source_topics, *(topic.name for topic in self.repartition_source_topics)]


class StreamsTopology(NamedTuple):
    """A topology. ``subtopologies``: by id, in the order in which they were sent."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    def in_order(self) -> list[Subtopology]:
        """The subtopologies in the order in which Kafka goes through them."""
        return [self.subtopologies[one] for one in hash_map_order(self.subtopologies)]

    def required_topics(self) -> list[str]:
        """Every topic that must exist, once: source, repartition and changelog topics."""
        return hash_map_order(
            name
            for subtopology in self.in_order()
            for name in [*subtopology.inputs, *(topic.name for topic in subtopology.state_changelog_topics)]
        )

    def subtopology_of(self, topic: str) -> str | None:
        """The id of the subtopology that reads a topic, or None. If several do, which Kafka's Streams does not allow,
        the last one counts."""
        for subtopology in reversed(self.in_order()):
            if topic in subtopology.inputs:
                return subtopology.id
        return None
