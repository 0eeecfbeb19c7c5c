"""Which partitions a member's tasks read, for the endpoints of interactive queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kwire.coordinator.groups.streams.topology.configured import ConfiguredSubtopology
from kwire.coordinator.groups.streams.topology.faults import impossible
from kwire.coordinator.groups.streams.topology.partitions import PartitionCount
from kwire.coordinator.runtime.java_hash import hash_map_order, string_order


def topic_partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], existing: PartitionCount
) -> list[tuple[str, list[int]]]:
    """The topics that active or standby tasks read, each with the partitions, by subtopology.

    A topic with fewer partitions than the member has tasks of the subtopology gets only as many, as in Kafka. Raises
    UNKNOWN_SERVER_ERROR if a topic does not exist.
    """
    found: list[tuple[str, list[int]]] = []
    for subtopology_id in sorted(tasks, key=string_order):
        subtopology = subtopologies[subtopology_id]
        partitions = sorted(tasks[subtopology_id])
        for topic in hash_map_order([*subtopology.source_topics, *subtopology.repartition_source_topics]):
            count = existing(topic)
            if count is None:
                raise impossible(f"Topic {topic} does not exist.")
            found.append((topic, partitions[:count]))
    return found
