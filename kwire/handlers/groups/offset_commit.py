"""OffsetCommit (API key 8): commit a group's offsets.

Behaviour:

* The response is sent once the offsets are committed in ``__consumer_offsets``. Per partition:
  UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE (``offset.metadata.max.bytes``).
* Errors of the member apply to all existing partitions: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
  REBALANCE_IN_PROGRESS, and the coordinator's errors.
* Generation -1 without a member id is a consumer that assigns its partitions itself, or an administrator; the group
  must be empty. The group id may be empty, for old clients.
* A commit also counts as a heartbeat.

Versions: 2 to 4 the client may set the retention; 5 it is the broker's (KIP-211); 6 leader epoch (KIP-320); 7 group
instance id (KIP-345); 8 flexible; 9 member epochs: STALE_MEMBER_EPOCH, and GROUP_ID_NOT_FOUND for a member of a missing
group, where earlier versions get ILLEGAL_GENERATION (KIP-848); 10 topic ids, UNKNOWN_TOPIC_ID (KIP-848).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, attempt, in_turns, resolved, then
from kwire.codec.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from kwire.codec.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import caller_of
from kwire.handlers.partitions import has_partition
from kwire.handlers.slices import SLICE_PARTITIONS, encode_in_slices
from kwire.security.acls.operations import AclOperation, Operation

TOPIC_IDS_SINCE = 10

_Commit: TypeAlias = Callable[[OffsetCommitRequest, Caller], NowOrLater[OffsetCommitResponse]]


def handle(request: OffsetCommitRequest, context: RequestContext) -> NowOrLater[OffsetCommitResponse]:
    """Refuse what does not exist or is not allowed, and have the coordinator commit the rest."""
    if sum(len(topic.partitions) for topic in request.topics) > SLICE_PARTITIONS:
        return _handle_in_slices(request, context)
    accepted, refused = _split(request.topics, context)
    return _commit(request, context, accepted, refused, context.services.groups.commit_offsets)


async def _handle_in_slices(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Very many offsets are prepared in slices. They are committed together: the coordinator does nothing else for the
    group meanwhile."""
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for part in _portions(request.topics):
        some, others = _split(part, context)
        accepted += some
        refused += others
        await asyncio.sleep(0)
    request.topics = accepted
    made: Sequence[CoordinatorRecord | None] = await in_turns(context.services.groups.commit_records(request))
    if not _are_there(accepted, context):  # offsets of a topic that was deleted meanwhile would stay
        accepted, others = _split(accepted, context)
        refused += others
        made = ()
    commit = partial(context.services.groups.commit_many_offsets, made=made)
    response = await resolved(_commit(request, context, accepted, refused, commit))
    return await encode_in_slices(context, response)


def _are_there(topics: Iterable[OffsetCommitRequestTopic], context: RequestContext) -> bool:
    """Whether all topics are still those that were looked up."""
    known = context.services.image.topics
    return all(topic.name in known and known[topic.name].id == topic.topic_id for topic in topics)


def _portions(topics: Sequence[OffsetCommitRequestTopic]) -> Iterator[list[OffsetCommitRequestTopic]]:
    """The topics in portions of about `SLICE_PARTITIONS` partitions."""
    portion: list[OffsetCommitRequestTopic] = []
    size = 0
    for topic in topics:
        portion.append(topic)
        size += len(topic.partitions)
        if size >= SLICE_PARTITIONS:
            yield portion
            portion, size = [], 0
    yield portion


def _commit(
    request: OffsetCommitRequest,
    context: RequestContext,
    accepted: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
    commit: _Commit,
) -> NowOrLater[OffsetCommitResponse]:
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    request.topics = accepted

    def failed(error: KafkaError) -> OffsetCommitResponse:
        return error_response(request, context.api_version, error.code, None)

    committed = attempt(lambda: commit(request, caller_of(context)), failed)
    return then(committed, partial(_merged, refused, by_id=context.api_version >= TOPIC_IDS_SINCE))


def _split(
    topics: Iterable[OffsetCommitRequestTopic], context: RequestContext
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The topics to commit, with names and ids, and the results of those that cannot be committed."""
    image = context.services.image
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    by_id = context.api_version >= TOPIC_IDS_SINCE
    for topic in topics:
        known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = topic.name if known is None else known.name
        if (known is not None or not by_id) and not is_topic_allowed(context, AclOperation.READ, name):
            known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if known is None:
            refused.append(_refused(topic, topic.partitions, error))
            continue
        topic.name, topic.topic_id = known.name, known.id
        existing = [
            partition for partition in topic.partitions if has_partition(image, name, partition.partition_index)
        ]
        if len(existing) < len(topic.partitions):
            missing = [
                partition for partition in topic.partitions if not has_partition(image, name, partition.partition_index)
            ]
            refused.append(_refused(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = existing
        if existing:
            accepted.append(topic)
    return accepted, refused


def _refused(topic: OffsetCommitRequestTopic, partitions: list[Any], error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in partitions
        ],
    )


def _merged(
    refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse, *, by_id: bool
) -> OffsetCommitResponse:
    """A response with one result per topic, refused partitions first."""
    if not refused:
        return response
    merged: dict[str | bytes, OffsetCommitResponseTopic] = {}
    for topic in (*refused, *response.topics):
        first = merged.setdefault(topic.topic_id if by_id else topic.name, topic)
        if first is not topic:
            first.partitions.extend(topic.partitions)
    response.topics = list(merged.values())
    return response


def operations(request: OffsetCommitRequest, context: RequestContext) -> list[Operation]:
    """READ on the group; topics are authorised one by one."""
    return [group_operation(AclOperation.READ, request.group_id)]


def error_response(
    request: OffsetCommitRequest, version: int, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(topics=[_refused(topic, topic.partitions, code) for topic in request.topics])


API = Api(
    ApiKey.OFFSET_COMMIT,
    served=(2, 10),
    handle=handle,
    operations=operations,
    error_response=error_response,
    sliced=True,
)
