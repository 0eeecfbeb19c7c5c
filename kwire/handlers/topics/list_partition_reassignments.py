"""ListPartitionReassignments (API key 46): the reassignments in progress (KIP-455).

Behaviour: partitions without a reassignment, and unknown ones, are left out. Null stands for all partitions.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.cluster.controller.reassignment import is_moving
from kwire.codec.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kwire.codec.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import DESCRIBE_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: ListPartitionReassignmentsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    """List the reassignments in this broker's image."""
    image = context.services.image
    wanted = image.topics if request.topics is None else {topic.name: topic for topic in request.topics}
    topics = []
    for name in wanted:
        found = image.topics.get(name)
        if found is None:
            continue
        requested = None if request.topics is None else wanted[name].partition_indexes  # type: ignore[union-attr]
        moving = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
            for index, state in enumerate(found.partitions)
            if is_moving(state) and (requested is None or index in requested)
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def refuse(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    """A top-level error, and the requested partitions without replicas, as in Kafka."""
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message, topics=topics)


API = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=refuse,
)
