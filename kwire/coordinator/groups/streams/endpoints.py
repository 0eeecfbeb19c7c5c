"""Interactive queries: which partitions the members behind each endpoint have (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.codec.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition
from kwire.coordinator.groups.streams.group import StreamsGroup
from kwire.coordinator.groups.streams.member import ActivePartitions, Partitions, StreamsMember
from kwire.coordinator.groups.streams.topology.endpoints import topic_partitions
from kwire.coordinator.runtime.java_hash import timeline_map_order

if TYPE_CHECKING:
    from kwire.coordinator.groups.streams.topology.partitions import PartitionCount


def partitions_by_endpoint(
    group: StreamsGroup, sender: StreamsMember, existing: PartitionCount
) -> list[EndpointToPartitions]:
    """The partitions of each member that has an endpoint. ``sender``: the member that gets this, in its new state."""
    others = (group.members[one] for one in timeline_map_order(list(group.members)) if one != sender.member_id)
    found = []
    for member in (*others, sender):
        if member.endpoint is not None:
            host, port = member.endpoint
            active = _partitions(group, member.assigned.active, existing)
            standby = _partitions(group, member.assigned.standby, existing)
            found.append(
                EndpointToPartitions(
                    user_endpoint=Endpoint(host=host, port=port), active_partitions=active, standby_partitions=standby
                )
            )
    return found


def _partitions(
    group: StreamsGroup, tasks: ActivePartitions | Partitions, existing: PartitionCount
) -> list[TopicPartition]:
    """The partitions of tasks: none while topics of the topology are missing (the heartbeat fails then in Kafka)."""
    configured = group.configured
    if configured is None or configured.subtopologies is None:
        return []
    try:
        found = topic_partitions(tasks, configured.subtopologies, existing)
    except KafkaError:
        return []
    return [TopicPartition(topic=topic, partitions=partitions) for topic, partitions in found]
