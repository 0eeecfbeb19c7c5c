"""ElectLeaders (API key 43): elect the preferred replica, or (unclean) any live replica, as leader.

Behaviour:

- Election type 0 (preferred) or 1 (unclean); any other is INVALID_REQUEST for all.
- Named partitions: ELECTION_NOT_NEEDED if the leader is the preferred one (or, unclean, if there is a leader),
  UNKNOWN_TOPIC_OR_PARTITION, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
- Null stands for all partitions. Those that need no election are left out; their topics have an empty list.
- If ``timeout_ms`` has passed, or is not positive: REQUEST_TIMED_OUT.

Versions: 1 unclean elections (KIP-460); 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.leaders import PREFERRED, UNCLEAN
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest
from kwire.codec.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: ElectLeadersRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    """Have the controller hold the elections."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        text = f"Unknown election type {request.election_type}"
        return refuse(request, context.api_version, ErrorCode.INVALID_REQUEST, text)
    requested = request.topic_partitions
    wanted = None
    if requested is not None:
        wanted = list(dict.fromkeys((topic.topic, index) for topic in requested for index in topic.partitions))
    try:
        outcomes = await context.services.controller.leaders.elect_leaders(
            request.election_type, wanted, timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        return refuse(request, context.api_version, error.code, error.message)
    if requested is not None:
        results = [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_result(index, outcomes[topic.topic, index]) for index in topic.partitions],
            )
            for topic in requested
        ]
    else:
        by_topic: dict[str, list[PartitionResult]] = {name: [] for name in context.services.image.topics}
        for (name, index), failure in outcomes.items():
            by_topic.setdefault(name, []).append(_result(index, failure))
        results = [ReplicaElectionResult(topic=name, partition_result=each) for name, each in by_topic.items()]
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
