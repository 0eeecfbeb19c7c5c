"""Configure a topology with the topics of the cluster: `configure`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kwire.coordinator.groups.streams.topology.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
    Status,
    TopologyProblem,
    TopologyProblemError,
)
from kwire.coordinator.groups.streams.topology.faults import impossible
from kwire.coordinator.groups.streams.topology.model import StreamsTopology, Subtopology, TopicInfo
from kwire.coordinator.groups.streams.topology.partitions import (
    PartitionCount,
    PartitionCounts,
    decide_partitions,
    input_partitions,
)
from kwire.coordinator.runtime.java_hash import hash_map_order, string_order

TOPICS_NAMED_MAX = 3
"""How many topics a status names; it says how many more there are."""


def configure(topology: StreamsTopology, existing: PartitionCount) -> ConfiguredTopology:
    """Tasks and internal topics of a topology, or its problem.

    Raises STREAMS_INVALID_TOPOLOGY for a topology that can never work, and UNKNOWN_SERVER_ERROR for one with which
    Kafka fails, such as one that names a topic twice in a list.
    """
    copartitioned = [group for subtopology in topology.in_order() for group in _copartition_groups(subtopology)]
    try:
        _check_sources(topology, existing)
        counts = decide_partitions(topology, copartitioned, existing)
        subtopologies = {
            one: _configured(topology.subtopologies[one], counts)
            for one in sorted(topology.subtopologies, key=string_order)
        }
        missing = _missing(subtopologies.values(), topology.required_topics(), existing)
    except TopologyProblemError as error:
        return ConfiguredTopology(topology.epoch, None, (), error.problem)
    problem = None
    if missing:
        names = _named([topic.name for topic in missing])
        problem = TopologyProblem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _copartition_groups(subtopology: Subtopology) -> list[list[str]]:
    """The names of the topics of each copartition group, once, in the order of Java's sets."""
    repartition = [topic.name for topic in subtopology.repartition_source_topics]
    return [
        hash_map_order(
            [
                *(_at(subtopology.source_topics, position) for position in group.source_topics),
                *(_at(repartition, position) for position in group.repartition_source_topics),
            ]
        )
        for group in subtopology.copartition_groups
    ]


def _at(names: Sequence[str], position: int) -> str:
    if not 0 <= position < len(names):
        raise impossible(f"A copartition group names topic {position} of {len(names)}.")
    return names[position]


def _check_sources(topology: StreamsTopology, existing: PartitionCount) -> None:
    sources = {topic for subtopology in topology.subtopologies.values() for topic in subtopology.source_topics}
    missing = sorted((topic for topic in sources if existing(topic) is None), key=string_order)
    if missing:
        raise TopologyProblemError(Status.MISSING_SOURCE_TOPICS, f"Source topics {_named(missing)} are missing.")


def _named(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:TOPICS_NAMED_MAX])
    more = len(topics) - TOPICS_NAMED_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        _checked(input_partitions(subtopology, counts), "A subtopology has {} tasks."),
        tuple(hash_map_order(subtopology.source_topics)),
        _internal(subtopology.repartition_source_topics, counts),
        tuple(hash_map_order(subtopology.repartition_sink_topics)),
        _internal(subtopology.state_changelog_topics, counts),
    )


def _internal(topics: Iterable[TopicInfo], counts: PartitionCounts) -> dict[str, InternalTopic]:
    """Internal topics by name, in the order of Java's map."""
    found: dict[str, InternalTopic] = {}
    for topic in topics:
        if topic.name in found:
            raise impossible(f"A subtopology names the internal topic {topic.name} twice.")
        found[topic.name] = _internal_topic(topic, counts)
    return {name: found[name] for name in hash_map_order(found)}


def _internal_topic(topic: TopicInfo, counts: PartitionCounts) -> InternalTopic:
    partitions = topic.partitions
    if partitions == 0:
        decided = counts.decided(topic.name)
        if decided is None:
            raise impossible(f"The number of partitions of topic {topic.name} is not known.")
        partitions = decided
    _checked(partitions, f"The internal topic {topic.name} has {{}} partitions.")
    configs = dict(topic.configs)
    if len(configs) < len(topic.configs):
        raise impossible(f"The internal topic {topic.name} has a property twice.")
    ordered = {key: configs[key] for key in hash_map_order(configs)}
    return InternalTopic(topic.name, partitions, topic.replication_factor, ordered)


def _checked(count: int, message: str) -> int:
    if count < 1:
        raise impossible(message.format(count))
    return count


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], required: Collection[str], existing: PartitionCount
) -> tuple[InternalTopic, ...]:
    """The internal topics that do not exist. Raises `TopologyProblemError` if one exists with another number of
    partitions."""
    wanted = {
        topic.name: topic
        for subtopology in subtopologies
        for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics)
        for topic in topics.values()
    }
    order = hash_map_order(wanted)
    for name in required:
        count = existing(name)
        topic = None if count is None else wanted.pop(name, None)
        if topic is not None and count != topic.partitions:
            raise TopologyProblemError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {count}",
            )
    return tuple(
        topic._replace(replication_factor=topic.replication_factor or -1)
        for topic in (wanted[name] for name in order if name in wanted)
    )
