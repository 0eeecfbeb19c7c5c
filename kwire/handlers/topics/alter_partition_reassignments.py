"""AlterPartitionReassignments (API key 45): move partitions to other brokers, or cancel such a move (KIP-455).

Behaviour:

- Each partition succeeds or fails by itself: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT for impossible
  replicas (none, one twice, a broker that is not registered); NO_REASSIGNMENT_IN_PROGRESS for null replicas, which
  cancel a reassignment, if none is in progress.
- If the replicas are the current ones: success, and nothing is written.
- If ``timeout_ms`` has passed, or is not positive: REQUEST_TIMED_OUT at the top level and for every partition.

Versions: 1 the replication factor may be kept (KIP-860).
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
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Have the controller start or cancel the reassignments."""
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    try:
        outcomes = iter(
            await context.services.controller.leaders.alter_partition_reassignments(
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
