"""ElectLeaders (API key 43): have the preferred replica, or any living one, elected.

Behaviour:

- election type 0 (preferred) or 1 (unclean); any other is INVALID_REQUEST for all.
- partitions named: ELECTION_NOT_NEEDED if the leader is right (or, unclean, there is one), UNKNOWN_TOPIC_OR_PARTITION,
  PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
- null: all partitions; those that needed no election are left out, their topics are told with an empty list.
- ``timeout_ms`` that is over, or not positive: REQUEST_TIMED_OUT.

Versions: 1 unclean elections (KIP-460); 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.leaders import PREFERRED, UNCLEAN
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest
from kwire.codec.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

ALLOWED = (Operation(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),)


def operations(request: ElectLeadersRequest, context: RequestContext) -> tuple[Operation, ...]:
    return ALLOWED


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        text = f"Unknown election type {request.election_type}"
        return refuse(request, context.api_version, ErrorCode.INVALID_REQUEST, text)
    asked = request.topic_partitions
    wanted = None
    if asked is not None:
        wanted = list(dict.fromkeys((topic.topic, index) for topic in asked for index in topic.partitions))
    try:
        outcomes = await context.services.controller.elect_leaders(
            request.election_type, wanted, timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        return refuse(request, context.api_version, error.code, error.message)
    if asked is not None:
        results = [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_result(index, outcomes[topic.topic, index]) for index in topic.partitions],
            )
            for topic in asked
        ]
    else:
        told: dict[str, list[PartitionResult]] = {name: [] for name in context.services.image.topics}
        for (name, index), failure in outcomes.items():
            told.setdefault(name, []).append(_result(index, failure))
        results = [ReplicaElectionResult(topic=name, partition_result=each) for name, each in told.items()]
    return ElectLeadersResponse(replica_election_results=results)


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)


def refuse(request: ElectLeadersRequest, version: int, code: ErrorCode, message: str | None) -> ElectLeadersResponse:
    """The same error for the whole and for every partition."""
    error = KafkaError(code, message)
    results = [
        ReplicaElectionResult(topic=topic.topic, partition_result=[_result(index, error) for index in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code if version >= 1 else ErrorCode.NONE, replica_election_results=results)


API = Api(
    ApiKey.ELECT_LEADERS, served=(0, 2), handle=handle, operations=operations, error_response=refuse, by_controller=True
)
