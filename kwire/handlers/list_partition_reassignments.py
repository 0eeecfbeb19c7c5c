"""ListPartitionReassignments (API key 46): the moves of partitions that are under way (KIP-455).

Behaviour: a move takes no time here, so none is ever under way; what is asked for does not matter, as in Kafka, which
leaves out whatever is not being moved.

Versions: 0.
"""

from __future__ import annotations

from kwire.codec.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kwire.codec.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

ALLOWED = (Operation(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),)


def operations(request: ListPartitionReassignmentsRequest, context: RequestContext) -> tuple[Operation, ...]:
    return ALLOWED


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, served=(0, 0), handle=handle, operations=operations)
