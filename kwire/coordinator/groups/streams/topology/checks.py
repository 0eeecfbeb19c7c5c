"""What a topology in StreamsGroupHeartbeat must satisfy whatever the state of the group and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.streams_group_heartbeat_request import Topology
from kwire.coordinator.groups.streams.topology.faults import invalid_topology


def check_topology(topology: Topology) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY if the number of partitions of a changelog topic is fixed: it follows from what
    the subtopology reads."""
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}."
                )


def check_supported(topology: Topology) -> None:
    """Raises INVALID_REQUEST for regular expressions, which Kafka 4.3 does not support."""
    if any(subtopology.source_topic_regex for subtopology in topology.subtopologies):
        message = "Regular expressions for source topics are not supported yet."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def topic_names(topology: Topology) -> list[str]:
    """The names of all topics, each once, in the order in which they appear. Clients need DESCRIBE on each."""
    names: dict[str, None] = {}
    for subtopology in topology.subtopologies:
        names.update(dict.fromkeys(subtopology.source_topics))
        names.update(dict.fromkeys(subtopology.repartition_sink_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
    return list(names)


def check_topic_names(
    names: Iterable[str], is_internal: Callable[[str], bool], is_valid: Callable[[str], bool]
) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY for names of the broker's own topics, and for names that no topic can have."""
    asked = list(names)
    if prohibited := [name for name in asked if is_internal(name)]:
        listed = ",".join(prohibited)
        raise invalid_topology(f"Use of Kafka internal topics {listed} in a Kafka Streams topology is prohibited.")
    if invalid := [name for name in asked if not is_valid(name)]:
        raise invalid_topology(f"Topic names {','.join(invalid)} are not valid topic names.")
