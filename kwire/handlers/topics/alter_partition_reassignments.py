"""AlterPartitionReassignments (API key 45): move partitions to other brokers, or cancel such a move (KIP-455).

Behaviour:

- each partition succeeds or fails for itself: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT for replicas that
  cannot be (none, twice the same, a broker that is not registered); NO_REASSIGNMENT_IN_PROGRESS for null replicas,
  which cancel, where nothing is under way.
- replicas that are where they should be: success, nothing is written.
- ``timeout_ms`` that is over, or not positive: REQUEST_TIMED_OUT for the whole and for every partition.

Versions: 1 the replication factor may be held (KIP-860).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.topics import Reassignment
from kwire.codec.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from kwire.codec.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

ALLOWED = (Operation(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),)


def operations(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> tuple[Operation, ...]:
    return ALLOWED


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    try:
        outcomes = iter(
            await context.services.controller.alter_partition_reassignments(
                wanted,
                allow_replication_factor_change=request.allow_replication_factor_change,
                timeout_ms=request.timeout_ms,
            )
        )
    except KafkaError as error:
        return refuse(request, context.api_version, error.code, error.message)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_result(each.partition_index, next(outcomes)) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _result(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def refuse(
    request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    """The same error for the whole and for every partition."""
    error = KafkaError(code, message)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_result(each.partition_index, error) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )


API = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    served=(0, 1),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
)
