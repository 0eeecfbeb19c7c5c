"""How many partitions the internal topics of a topology must have.

Three steps, each of which knows the results of those before: repartition topics, topics that must be partitioned alike,
changelog topics. Topics that exist count as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kwire.coordinator.groups.streams.topology.configured import Status, TopologyProblemError
from kwire.coordinator.groups.streams.topology.faults import impossible, invalid_topology
from kwire.coordinator.groups.streams.topology.model import StreamsTopology, Subtopology
from kwire.coordinator.runtime.java_hash import hash_map_order, string_order

PartitionCount = Callable[[str], int | None]
"""The number of partitions of a topic, or None if there is no such topic."""


class PartitionCounts:
    """The numbers of partitions: of topics that exist, and of internal topics as far as they are decided."""

    def __init__(self, existing: PartitionCount) -> None:
        self._existing = existing
        self._decided: dict[str, int] = {}

    def of(self, topic: str) -> int:
        """The number of partitions of a topic. Raises UNKNOWN_SERVER_ERROR if it is not known."""
        count = self._existing(topic)
        if count is None:
            count = self._decided.get(topic)
        if count is None:
            raise impossible(f"The number of partitions of topic {topic} is not known.")
        return count

    def decided(self, topic: str) -> int | None:
        """The number that was decided for an internal topic, whether it exists or not."""
        return self._decided.get(topic)

    def decide(self, counts: Mapping[str, int]) -> None:
        """Set the numbers of internal topics."""
        self._decided.update(counts)


def decide_partitions(
    topology: StreamsTopology, copartitioned: Sequence[Sequence[str]], existing: PartitionCount
) -> PartitionCounts:
    """The numbers of partitions of all internal topics.

    ``copartitioned``: the groups of topics that must have equally many. Raises `TopologyProblemError`,
    STREAMS_INVALID_TOPOLOGY, or UNKNOWN_SERVER_ERROR.
    """
    subtopologies = topology.in_order()
    counts = PartitionCounts(existing)
    counts.decide(repartition_counts(subtopologies, existing))
    repartition = [topic for subtopology in subtopologies for topic in subtopology.repartition_source_topics]
    fixed = frozenset(topic.name for topic in repartition if topic.partitions != 0)
    flexible = frozenset(topic.name for topic in repartition if topic.partitions == 0)
    for topics in copartitioned:
        if topics:
            counts.decide(copartition(topics, fixed, flexible, counts))
    for subtopology in subtopologies:
        tasks = input_partitions(subtopology, counts)
        counts.decide({topic.name: tasks for topic in subtopology.state_changelog_topics})
    return counts


def input_partitions(subtopology: Subtopology, counts: PartitionCounts) -> int:
    """The most partitions of a topic that a subtopology reads. Raises STREAMS_INVALID_TOPOLOGY if it reads none."""
    inputs = [counts.of(topic) for topic in subtopology.inputs]
    if not inputs:
        raise invalid_topology(f"No source topics found for subtopology {subtopology.id}")
    return max(inputs)


def repartition_counts(subtopologies: Sequence[Subtopology], existing: PartitionCount) -> dict[str, int]:
    """Repartition topics without a fixed number get as many partitions as the subtopology that writes them reads.

    Raises STREAMS_INVALID_TOPOLOGY for loops, and for a repartition topic that nobody writes.
    """
    counts = {
        topic.name: topic.partitions
        for subtopology in subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions != 0
    }
    while _decide_sinks(subtopologies, counts, existing):
        pass
    for subtopology in subtopologies:
        if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic"
                " is never used as a sink topic."
            )
    return counts


def _decide_sinks(subtopologies: Sequence[Subtopology], counts: dict[str, int], existing: PartitionCount) -> bool:
    """One round: decide what can be decided. True if another round is needed."""
    missing = progress = False
    for subtopology in subtopologies:
        for sink in subtopology.repartition_sink_topics:
            if sink in counts:
                continue
            count = _known_input_partitions(subtopology, counts, existing)
            if count is None:
                missing = True
            else:
                counts[sink] = count
                progress = True
    if missing and not progress:
        raise invalid_topology(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that"
            " cannot be resolved."
        )
    return missing


def _known_input_partitions(
    subtopology: Subtopology, counts: Mapping[str, int], existing: PartitionCount
) -> int | None:
    """The most partitions of the topics that a subtopology reads and whose number is known, or None if none is."""
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [existing(topic) for topic in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def copartition(
    topics: Sequence[str], fixed: frozenset[str], flexible: frozenset[str], counts: PartitionCounts
) -> dict[str, int]:
    """The numbers of partitions of the repartition topics among topics that must have equally many.

    With topics of the user it is theirs. Without, it is that of the topics with a fixed number, of *all* groups of the
    topology as in Kafka; if there are none, the largest. Raises `TopologyProblemError`.
    """
    internal = fixed | flexible
    repartition = {topic: counts.of(topic) for topic in hash_map_order(topic for topic in topics if topic in internal)}
    others = {topic: counts.of(topic) for topic in topics if topic not in repartition}
    if others:
        wanted = _same(others, others)
    elif fixed:
        wanted = _same({topic: counts.of(topic) for topic in fixed}, repartition)
    else:
        wanted = max(repartition.values())
    for topic, count in repartition.items():
        if topic in fixed and count != wanted:
            raise TopologyProblemError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match number of partitions"
                f" [{wanted}] of the source topic.",
            )
    return dict.fromkeys(repartition, wanted)


def _same(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
    """The number that all topics have. Raises `TopologyProblemError` with the ``named`` topics if they differ."""
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{topic}={named[topic]}" for topic in sorted(named, key=string_order))
        raise TopologyProblemError(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    return next(iter(counts.values()))
