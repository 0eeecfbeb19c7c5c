"""CreateTopics (API key 19): create topics, or (``validate_only``) check whether they could be created.

Behaviour:

- Each topic succeeds or fails by itself. A name that is given twice has one result, INVALID_REQUEST.
- -1 partitions or replicas stand for `num.partitions` and `default.replication.factor`; with assignments both must
  be -1.
- INVALID_TOPIC_EXCEPTION (name, or collision of "." and "_"), TOPIC_ALREADY_EXISTS, INVALID_CONFIG, INVALID_PARTITIONS,
  INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, POLICY_VIOLATION (too many partitions in one
  request), in the order of Kafka's checks.
- Partitions count towards `controller_mutation_rate`, those that are only validated, too: THROTTLING_QUOTA_EXCEEDED.
- If ``timeout_ms`` has passed, or is not positive: REQUEST_TIMED_OUT.
- When the response is sent, the topic is in this broker's image and can be written to.

Versions: 4 defaults by -1 (KIP-464); 5 flexible, the response has the numbers and properties (KIP-525); 6 quota
(KIP-599); 7 topic id (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.cluster.controller.controller import CreatedTopic
from kwire.cluster.controller.topics import NewTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import allowed_topics_in_slices, is_allowed, is_topic_allowed
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kwire.base.quota import MutationQuota


SLICE_TOPICS: Final = 20
"""Topics, each with all of its properties, that are described before other clients get their turn: some
milliseconds."""

SLICE_NEW_TOPICS: Final = 1000
"""Topics of a request that are read before other clients get their turn."""

CREATE_ANY: Final = Operation(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
"""The operation that allows creating any topic."""


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Have the controller create all topics that may be created."""
    names = Counter(topic.name for topic in request.topics)
    allows_any = is_allowed(context, CREATE_ANY, Purpose.CHOICE)
    allowed = names if allows_any else await resolved(allowed_topics_in_slices(context, AclOperation.CREATE, names))
    wanted = [topic for topic in request.topics if names[topic.name] == 1 and topic.name in allowed]
    new = await resolved(in_slices(wanted, _new_topics, SLICE_NEW_TOPICS))
    quota = context.mutation_quota(strict_since=6)
    outcomes: Mapping[str, CreatedTopic | KafkaError] = await _create(request, context, new, quota)
    properties = _Properties(context)

    def some(part: Sequence[tuple[str, int]]) -> list[CreatableTopicResult]:
        return [_result(properties, name, count, name in allowed, outcomes.get(name)) for name, count in part]

    results = await resolved(in_slices(list(names.items()), some, SLICE_TOPICS))
    response = CreateTopicsResponse(topics=results, throttle_time_ms=quota.throttle_time_ms())
    if len(results) > SLICE_TOPICS:
        await encode_in_slices(context, response)
    return response


class _Properties:
    """The properties of a request's new topics. Those without properties of their own, or with the same, have them in
    common: thirty for each of thousands of topics would take longer to describe, and to free, than to create."""

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self._described: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, topic: CreatedTopic) -> list[CreatableTopicConfigs]:
        """All properties of a topic: not to be changed."""
        own = tuple(topic.configs.items())
        described = self._described.get(own)
        if described is None:
            described = self._described[own] = _describe(self.context, topic)
        return described


def _result(
    properties: _Properties, name: str, count: int, is_allowed: bool, outcome: CreatedTopic | KafkaError | None
) -> CreatableTopicResult:
    if count > 1:
        return _failed(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    if not is_allowed or outcome is None:
        return _failed(name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
    return _failed(name, outcome) if isinstance(outcome, KafkaError) else _created(properties, outcome)


async def _create(
    request: CreateTopicsRequest, context: RequestContext, new: list[NewTopic], quota: MutationQuota
) -> Mapping[str, CreatedTopic | KafkaError]:
    try:
        return await context.services.controller.create_topics(
            new,
            validate_only=request.validate_only,
            timeout_ms=request.timeout_ms,
            quota=quota,
        )
    except KafkaError as error:
        return {topic.name: error for topic in new}


def _new_topics(topics: Sequence[CreatableTopic]) -> list[NewTopic]:
    return [_new_topic(topic) for topic in topics]


def _new_topic(topic: CreatableTopic) -> NewTopic:
    assignments = [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments]
    configs = {config.name: config.value for config in topic.configs}
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _created(properties: _Properties, topic: CreatedTopic) -> CreatableTopicResult:
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
    )
    if properties.context.api_version >= 5:
        _add_configs(properties, topic, result)
    return result


def _add_configs(properties: _Properties, topic: CreatedTopic, result: CreatableTopicResult) -> None:
    context = properties.context
    if not is_topic_allowed(context, AclOperation.DESCRIBE_CONFIGS, topic.name, Purpose.CHOICE):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = []
        return
    result.configs = properties.of(topic)


def _describe(context: RequestContext, topic: CreatedTopic) -> list[CreatableTopicConfigs]:
    from kwire.base.config.describe import describe_topic

    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(context.services.config, topic.configs)
    ]


def refuse(request: CreateTopicsRequest, version: int, code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    """The same error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[_failed(name, KafkaError(code, message)) for name in names])


API = Api(ApiKey.CREATE_TOPICS, served=(2, 7), handle=handle, error_response=refuse, by_controller=True, sliced=True)
