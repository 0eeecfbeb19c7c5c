"""DeleteTopics (API key 20): delete topics with their data and properties.

Behaviour:

- By name, or (version 6) by name or id; each topic succeeds or fails by itself.
- INVALID_REQUEST: neither name nor id given, or both; the same name or id twice; or a name and an id of one topic.
- UNKNOWN_TOPIC_OR_PARTITION for an unknown name, UNKNOWN_TOPIC_ID for an unknown id.
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED for all (before version 3 INVALID_REQUEST).
- TOPIC_AUTHORIZATION_FAILED for a name that the client may not delete, whether there is such a topic or not, and for
  the id of such a topic; the topic's name is shown only if the client may describe it. DELETE on the cluster allows all
  topics to be deleted.
- The partitions count towards `controller_mutation_rate`: THROTTLING_QUOTA_EXCEEDED.
- The partitions are no longer served when the response is sent; their files are deleted after `file.delete.delay.ms`.

Versions: 3 TOPIC_DELETION_DISABLED (KIP-322); 4 flexible; 5 error message and quota (KIP-599); 6 topic ids (KIP-516).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.base.uuids import ZERO_UUID
from kwire.cluster.metadata.image import TopicImage
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import DELETE_IN_CLUSTER, is_allowed, is_topic_allowed
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.slices import empty_in_slices, encode_in_slices, in_slices
from kwire.security.acls.operations import AclOperation

SLICE_TOPICS: Final = 500
"""Topics that are examined before other clients get their turn: some milliseconds."""

_Doomed = tuple[DeleteTopicState, TopicImage]
"""A topic to delete, and how the request names it."""

UNKNOWN_NAME = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
UNKNOWN_ID = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Have the controller delete all topics that may be deleted."""
    if not context.services.config.delete_topic_enable:
        disabled = context.api_version >= 3
        code = ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST
        return refuse(request, context.api_version, code, "Topic deletion is disabled.")
    results, topics = await _split(_requested(request, context.api_version), context)
    outcomes: dict[bytes, KafkaError | None]
    quota = context.mutation_quota(strict_since=5)
    try:
        outcomes = await context.services.controller.delete_topics(
            list(topics), timeout_ms=request.timeout_ms, quota=quota
        )
    except KafkaError as error:
        outcomes = dict.fromkeys(topics, error)
    doomed = list(topics.values())
    results += await resolved(in_slices(doomed, partial(_outcomes, outcomes), SLICE_TOPICS))
    empty_in_slices(doomed)  # what was deleted may be in no image any more
    response = DeleteTopicsResponse(responses=results, throttle_time_ms=quota.throttle_time_ms())
    if len(results) > SLICE_TOPICS:
        await encode_in_slices(context, response)
    return response


def _outcomes(outcomes: Mapping[bytes, KafkaError | None], topics: Sequence[_Doomed]) -> list[DeletableTopicResult]:
    return [_outcome(requested, topic, outcomes[topic.id]) for requested, topic in topics]


def _outcome(requested: DeleteTopicState, topic: TopicImage, failure: KafkaError | None) -> DeletableTopicResult:
    if failure is None:
        return _result(topic.name, topic.id, None)
    if failure.code == ErrorCode.UNKNOWN_TOPIC_ID:  # deleted meanwhile
        failure = UNKNOWN_NAME if requested.name is not None else UNKNOWN_ID
    return _result(requested.name, requested.topic_id, failure)


def _requested(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    if version >= 6:
        return request.topics
    return [DeleteTopicState(name=name) for name in request.topic_names]


async def _split(
    requested: list[DeleteTopicState], context: RequestContext
) -> tuple[list[DeletableTopicResult], dict[bytes, _Doomed]]:
    """The results of what cannot be deleted, and the topics to delete by id. Very many are examined in slices."""
    image = context.services.image
    names = Counter(topic.name for topic in requested if topic.name is not None and topic.topic_id == ZERO_UUID)
    ids = Counter(topic.topic_id for topic in requested if topic.name is None and topic.topic_id != ZERO_UUID)
    results: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    topics: dict[bytes, _Doomed] = {}
    for count, state in enumerate(requested):
        if count and count % SLICE_TOPICS == 0:
            await asyncio.sleep(0)
        name, topic_id = state.name, state.topic_id
        known = image.topics.get(name) if name is not None else image.topics_by_id.get(topic_id)
        try:
            topic = _validate(state, known, names, ids, context)
        except KafkaError as error:
            results[name, topic_id] = _result(_shown_name(name, known, error, context), topic_id, error)
            continue
        if topic.id in ids and name is not None:
            text = "The provided topic name maps to an ID that was already supplied."
            results[None, topic.id] = _result(name, topic.id, KafkaError(ErrorCode.INVALID_REQUEST, text))
            topics.pop(topic.id, None)
        elif (None, topic.id) not in results:
            topics[topic.id] = (state, topic)
    return list(results.values()), topics


def _validate(
    state: DeleteTopicState,
    known: TopicImage | None,
    names: Counter[str],
    ids: Counter[bytes],
    context: RequestContext,
) -> TopicImage:
    """The topic to delete. KafkaError if the request contradicts itself, or the client may not delete the topic."""
    if state.name is None and state.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if state.name is not None and names[state.name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if ids[state.topic_id] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    if known is None and state.name is None:
        raise UNKNOWN_ID
    _require_delete(context, state.name if known is None else known.name)
    if known is None:
        raise UNKNOWN_NAME
    return known


def _require_delete(context: RequestContext, name: str | None) -> None:
    """TOPIC_AUTHORIZATION_FAILED unless the client may delete the topic, or all topics."""
    if name is None or is_allowed(context, DELETE_IN_CLUSTER, Purpose.CHOICE):
        return
    if is_topic_allowed(context, AclOperation.DELETE, name):
        return
    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _shown_name(name: str | None, known: TopicImage | None, error: KafkaError, context: RequestContext) -> str | None:
    """The name in a result: the one requested, or that of a topic which the client may describe but not delete."""
    if name is None and known is not None and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return known.name if is_topic_allowed(context, AclOperation.DESCRIBE, known.name) else None
    return name


def _result(name: str | None, topic_id: bytes, error: KafkaError | None) -> DeletableTopicResult:
    if error is None:
        return DeletableTopicResult(name=name, topic_id=topic_id, error_message=None)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)


def refuse(request: DeleteTopicsRequest, version: int, code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    """The same error for every topic."""
    error = KafkaError(code, message)
    states = {(state.name, state.topic_id): None for state in _requested(request, version)}
    return DeleteTopicsResponse(responses=[_result(name, topic_id, error) for name, topic_id in states])


API = Api(ApiKey.DELETE_TOPICS, served=(1, 6), handle=handle, error_response=refuse, by_controller=True, sliced=True)
