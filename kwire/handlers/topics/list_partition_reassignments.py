"""ListPartitionReassignments (API key 46): the moves of partitions that are under way (KIP-455).

Behaviour: partitions that are not on the move, or do not exist, are left out. Null asks for all that are.

Versions: 0.
"""

from __future__ import annotations

from kwire.cluster.controller.reassignment import is_moving
from kwire.codec.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kwire.codec.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

ALLOWED = (Operation(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),)


def operations(request: ListPartitionReassignmentsRequest, context: RequestContext) -> tuple[Operation, ...]:
    return ALLOWED


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    image = context.services.image
    wanted = image.topics if request.topics is None else {topic.name: topic for topic in request.topics}
    topics = []
    for name in wanted:
        found = image.topics.get(name)
        if found is None:
            continue
        asked = None if request.topics is None else wanted[name].partition_indexes  # type: ignore[union-attr]
        moving = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
            for index, state in enumerate(found.partitions)
            if is_moving(state) and (asked is None or index in asked)
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, served=(0, 0), handle=handle, operations=operations)
