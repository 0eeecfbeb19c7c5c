"""OffsetCommit (API key 8): remember how far a group has read.

Behaviour:

* Answered when the positions are committed in ``__consumer_offsets``; per partition: UNKNOWN_TOPIC_OR_PARTITION,
  TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE (``offset.metadata.max.bytes``).
* What is wrong with the member holds for all partitions that are there: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
  FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and the coordinator's errors.
* Generation -1 without a member id: a consumer that assigns itself, or an administrator; the group must be empty.
  The group id may be empty, for the sake of old clients.
* A commit is as good as a heartbeat.

Versions: 2 to 4 the client may set the retention; 5 it is the broker's (KIP-211); 6 leader epoch (KIP-320); 7 group
instance id (KIP-345); 8 flexible; 9 member epochs: STALE_MEMBER_EPOCH, and GROUP_ID_NOT_FOUND where a member of a
missing group was told ILLEGAL_GENERATION (KIP-848); 10 topic ids, UNKNOWN_TOPIC_ID (KIP-848).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from kwire.codec.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import caller_of, group_operation, has_partition, may

TOPIC_IDS_SINCE = 10


def handle(
    request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Answer for the partitions that are not there; the coordinator decides on all others."""
    accepted, refused = _sift(request, context)
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    request.topics = accepted
    try:
        answer = context.services.groups.commit_offsets(request, caller_of(context))
    except KafkaError as error:
        answer = error_response(request, context.api_version, error.code, None)
    if inspect.isawaitable(answer):
        return _later(request, context, answer, refused)
    return _merged(answer, refused)


async def _later(
    request: OffsetCommitRequest,
    context: RequestContext,
    pending: Awaitable[OffsetCommitResponse],
    refused: list[OffsetCommitResponseTopic],
) -> OffsetCommitResponse:
    try:
        answer = await pending
    except KafkaError as error:
        answer = error_response(request, context.api_version, error_of(error)[0], None)
    return _merged(answer, refused)


def _sift(
    request: OffsetCommitRequest, context: RequestContext
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The topics to commit, with names and ids, and the answers for what cannot be committed."""
    image = context.services.image
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    by_id = context.api_version >= TOPIC_IDS_SINCE
    for topic in request.topics:
        known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = topic.name if known is None else known.name
        if (known is not None or not by_id) and not may(context, AclOperation.READ, name):
            known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if known is None:
            refused.append(_topic_answer(topic, topic.partitions, error))
            continue
        topic.name, topic.topic_id = known.name, known.id
        there = [asked for asked in topic.partitions if has_partition(image, name, asked.partition_index)]
        if len(there) < len(topic.partitions):
            missing = [asked for asked in topic.partitions if not has_partition(image, name, asked.partition_index)]
            refused.append(_topic_answer(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = there
        if there:
            accepted.append(topic)
    return accepted, refused


def _topic_answer(
    topic: OffsetCommitRequestTopic, partitions: list[Any], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
            for asked in partitions
        ],
    )


def _merged(answer: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]) -> OffsetCommitResponse:
    """One answer per topic, refused partitions first."""
    if not refused:
        return answer
    merged: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in (*refused, *answer.topics):
        first = merged.setdefault((topic.name, topic.topic_id), topic)
        if first is not topic:
            first.partitions.extend(topic.partitions)
    answer.topics = list(merged.values())
    return answer


def operations(request: OffsetCommitRequest, context: RequestContext) -> list[Operation]:
    return [group_operation(AclOperation.READ, request.group_id)]


def error_response(
    request: OffsetCommitRequest, version: int, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_topic_answer(topic, topic.partitions, code) for topic in request.topics])


API = Api(ApiKey.OFFSET_COMMIT, served=(2, 10), handle=handle, operations=operations, error_response=error_response)
