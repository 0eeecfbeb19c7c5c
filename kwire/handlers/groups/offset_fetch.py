"""OffsetFetch (API key 9): how far a group has read.

Behaviour:

* Offset -1 without an error where nothing was committed: an unknown group, topic or partition is no error. Whether
  the topic (still) exists is not asked, unless it is named by id.
* ``require_stable``: a position that an open transaction may still change is UNSTABLE_OFFSET_COMMIT (KIP-447).
* A position that was committed for an earlier topic of the same name counts as none for who names topics by id.

Versions: 1 offsets from the log; 2 all topics (null), an error for the group; 5 leader epoch (KIP-320); 6 flexible; 7
``require_stable``; 8 many groups (KIP-709); 9 member epochs (KIP-848); 10 topic ids, UNKNOWN_TOPIC_ID (KIP-848).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codec.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, RequestContext
from kwire.handlers.groups.group_calls import each, group_operation, may, then

GROUP_ERROR_SINCE = 2
MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10

Group = OffsetFetchRequestGroup
GroupAnswer = OffsetFetchResponseGroup


def handle(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Versions before 8 are a list of one group."""
    operation = partial(_fetch, context, request.require_stable)
    answers = each(_asked(request, context.api_version), operation, _refused)
    return then(answers, partial(_response, request, context.api_version))


def _asked(request: OffsetFetchRequest, version: int) -> list[Group]:
    if version >= MANY_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [Group(group_id=request.group_id, topics=topics)]


def _fetch(context: RequestContext, require_stable: bool, asked: Group) -> GroupAnswer | Awaitable[GroupAnswer]:
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        authorizer.require(context, group_operation(AclOperation.DESCRIBE, asked.group_id))
    refused: list[OffsetFetchResponseTopics] = []
    if asked.topics is not None:
        asked.topics = _sift(context, asked.topics, refused)
    answer = context.services.groups.fetch_offsets(asked, require_stable=require_stable)
    return then(answer, partial(_finish, context, refused, everything=asked.topics is None))


def _sift(
    context: RequestContext, topics: list[OffsetFetchRequestTopics], refused: list[OffsetFetchResponseTopics]
) -> list[OffsetFetchRequestTopics]:
    """The topics to look up, by name; what is refused joins ``refused``."""
    image = context.services.image
    accepted = []
    for topic in topics:
        if context.api_version >= TOPIC_IDS_SINCE:
            known = image.topics_by_id.get(topic.topic_id)
            if known is None:
                refused.append(_topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            topic.name = known.name
        if may(context, AclOperation.DESCRIBE, topic.name):
            accepted.append(topic)
        else:
            refused.append(_topic_error(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return accepted


def _topic_error(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[_none(index, error) for index in topic.partition_indexes],
    )


def _none(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error
    )


def _finish(
    context: RequestContext, refused: list[OffsetFetchResponseTopics], answer: GroupAnswer, *, everything: bool
) -> GroupAnswer:
    """Name topics by id where the version does; of "all topics" only those that are there and may be seen."""
    image = context.services.image
    if everything and context.api_version >= TOPIC_IDS_SINCE:
        kept = []
        for topic in answer.topics:
            known = image.topics.get(topic.name)
            if known is not None:
                topic.topic_id = known.id
                kept.append(topic)
        answer.topics = kept
    if everything and not context.services.authorizer.allows_all:
        answer.topics = [topic for topic in answer.topics if may(context, AclOperation.DESCRIBE, topic.name)]
    if refused:
        answer.topics = [*answer.topics, *refused]
    return answer


def _refused(asked: Group, error: KafkaError) -> GroupAnswer:
    return GroupAnswer(group_id=asked.group_id, error_code=error.code)


def _response(request: OffsetFetchRequest, version: int, answers: list[GroupAnswer]) -> OffsetFetchResponse:
    if version >= MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=answers)
    answer = answers[0]
    if answer.error_code and version < GROUP_ERROR_SINCE:
        error = ErrorCode(answer.error_code)
        answer.topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_none(index, error) for index in topic.partition_indexes]
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(error_code=answer.error_code, topics=[_old(topic) for topic in answer.topics])


def _old(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )


def error_response(
    request: OffsetFetchRequest, version: int, code: ErrorCode, message: str | None
) -> OffsetFetchResponse:
    refused = [_refused(asked, KafkaError(code)) for asked in _asked(request, version)]
    return _response(request, version, refused)


API = Api(ApiKey.OFFSET_FETCH, served=(1, 10), handle=handle, error_response=error_response)
