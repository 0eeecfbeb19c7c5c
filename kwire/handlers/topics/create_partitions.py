"""CreatePartitions (API key 37): add partitions to topics.

Behaviour:

- Each topic succeeds or fails by itself. A name that is given twice has one result, INVALID_REQUEST.
- UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS unless the total grows; INVALID_REPLICA_ASSIGNMENT if assignments are
  given that do not fit the number of new partitions, the topic's replication factor or the brokers.
- New partitions count towards `controller_mutation_rate`: THROTTLING_QUOTA_EXCEEDED.
- With ``validate_only``, nothing is written. If ``timeout_ms`` has passed, or is not positive: REQUEST_TIMED_OUT.

Versions: 2 flexible; 3 quota (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.cluster.controller.controller import NewPartitions
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import allowed_topics_in_slices
from kwire.handlers.context import RequestContext
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.security.acls.operations import AclOperation

SLICE_TOPICS: Final = 250
"""Topics whose results are described before other clients get their turn."""


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Have the controller add the partitions of all topics that may be altered."""
    names = Counter(topic.name for topic in request.topics)
    allowed = await resolved(allowed_topics_in_slices(context, AclOperation.ALTER, names))
    outcomes: dict[str, KafkaError | None] = {}
    for name, count in names.items():
        if count > 1:
            outcomes[name] = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif name not in allowed:
            outcomes[name] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    wanted = [_new_partitions(topic) for topic in request.topics if topic.name not in outcomes]
    quota = context.mutation_quota(strict_since=3)
    try:
        outcomes.update(
            await context.services.controller.create_partitions(
                wanted, validate_only=request.validate_only, timeout_ms=request.timeout_ms, quota=quota
            )
        )
    except KafkaError as error:
        outcomes.update({topic.name: error for topic in wanted})

    def described(part: Sequence[str]) -> list[CreatePartitionsTopicResult]:
        return [_result(name, outcomes[name]) for name in part]

    results = await resolved(in_slices(list(names), described, SLICE_TOPICS))
    response = CreatePartitionsResponse(results=results, throttle_time_ms=quota.throttle_time_ms())
    return await encode_in_slices(context, response) if len(results) > SLICE_TOPICS else response


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    return NewPartitions(topic.name, topic.count, assignments)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_message=None)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)


def refuse(
    request: CreatePartitionsRequest, version: int, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """The same error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=[_result(name, KafkaError(code, message)) for name in names])


API = Api(
    ApiKey.CREATE_PARTITIONS, served=(0, 3), handle=handle, error_response=refuse, by_controller=True, sliced=True
)
