"""OffsetFetch (API key 9): a group's committed offsets.

Behaviour:

* Offset -1 without an error if nothing was committed: an unknown group, topic or partition is no error. Whether the
  topic (still) exists is not checked, unless it is named by id.
* ``require_stable``: UNSTABLE_OFFSET_COMMIT for an offset that an open transaction may still change (KIP-447).
* If topics are named by id, an offset committed for an earlier topic of the same name counts as none.

Versions: 1 offsets from the log; 2 all topics (null), an error for the group; 5 leader epoch (KIP-320); 6 flexible; 7
``require_stable``; 8 many groups (KIP-709); 9 member epochs (KIP-848); 10 topic ids, UNKNOWN_TOPIC_ID (KIP-848).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, is_later, resolved, then
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
from kwire.handlers.authorization import allowed_topics_in_slices, group_operation, is_topic_allowed, require
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import each_group
from kwire.handlers.slices import SLICE_PARTITIONS, encode_in_slices, in_slices
from kwire.security.acls.operations import AclOperation

GROUP_ERROR_SINCE = 2
MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10

SLICE_TOPICS: Final = 500
"""Topics that are looked up and authorised before other clients get their turn: a millisecond or two."""

OFFSETS_PER_GROUP: Final = 8
"""Looking up so many offsets takes as long as all else about a group."""


def handle(request: OffsetFetchRequest, context: RequestContext) -> NowOrLater[OffsetFetchResponse]:
    """Fetch the offsets of every group; a request before version 8 has one."""
    operation = partial(_fetch, context, request.require_stable)
    groups = _requested_groups(request, context.api_version)
    respond = partial(_response, request, context.api_version)
    response = each_group(context, groups, operation, _refused, respond, cost=partial(_cost, context))
    return then(response, partial(_encoded, context)) if is_later(response) else response


def _cost(context: RequestContext, group: OffsetFetchRequestGroup) -> int:
    """How many groups without offsets a group counts for."""
    if group.topics is None:
        count = context.services.groups.count_offsets(group.group_id)
    else:
        count = sum(len(topic.partition_indexes) for topic in group.topics)
    return 1 + count // OFFSETS_PER_GROUP


def _requested_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= MANY_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _fetch(
    context: RequestContext, require_stable: bool, group: OffsetFetchRequestGroup
) -> NowOrLater[OffsetFetchResponseGroup]:
    require(context, group_operation(AclOperation.DESCRIBE, group.group_id))
    if group.topics is not None and len(group.topics) > SLICE_TOPICS:
        return _fetch_in_slices(context, require_stable, group, group.topics)
    refused: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        group.topics = _split(context, group.topics, refused)
    result = context.services.groups.fetch_offsets(group, require_stable=require_stable)
    return then(result, partial(_finish, context, refused, everything=group.topics is None))


async def _fetch_in_slices(
    context: RequestContext,
    require_stable: bool,
    group: OffsetFetchRequestGroup,
    topics: list[OffsetFetchRequestTopics],
) -> OffsetFetchResponseGroup:
    """Very many topics are looked up and authorised in slices."""
    refused: list[OffsetFetchResponseTopics] = []
    group.topics = await resolved(in_slices(topics, lambda some: _split(context, some, refused), SLICE_TOPICS))
    result = await resolved(context.services.groups.fetch_offsets(group, require_stable=require_stable))
    return await resolved(_finish(context, refused, result, everything=False))


def _split(
    context: RequestContext, topics: Sequence[OffsetFetchRequestTopics], refused: list[OffsetFetchResponseTopics]
) -> list[OffsetFetchRequestTopics]:
    """The topics to look up, by name; the results of all others are added to ``refused``."""
    image = context.services.image
    accepted = []
    for topic in topics:
        if context.api_version >= TOPIC_IDS_SINCE:
            known = image.topics_by_id.get(topic.topic_id)
            if known is None:
                refused.append(_topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            topic.name = known.name
        if is_topic_allowed(context, AclOperation.DESCRIBE, topic.name):
            accepted.append(topic)
        else:
            refused.append(_topic_error(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return accepted


def _topic_error(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[_no_offset(index, error) for index in topic.partition_indexes],
    )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error
    )


def _finish(
    context: RequestContext,
    refused: list[OffsetFetchResponseTopics],
    result: OffsetFetchResponseGroup,
    *,
    everything: bool,
) -> NowOrLater[OffsetFetchResponseGroup]:
    """Add topic ids if the version has them. Of "all topics", keep those that exist and that the principal may
    describe."""
    image = context.services.image
    if everything and context.api_version >= TOPIC_IDS_SINCE:
        kept = []
        for topic in result.topics:
            known = image.topics.get(topic.name)
            if known is not None:
                topic.topic_id = known.id
                kept.append(topic)
        result.topics = kept
    if everything and not context.services.authorizer.allows_all:
        names = [topic.name for topic in result.topics]
        return then(allowed_topics_in_slices(context, AclOperation.DESCRIBE, names), partial(_only, result))
    if refused:
        result.topics = [*result.topics, *refused]
    return result


def _only(result: OffsetFetchResponseGroup, allowed: Collection[str]) -> OffsetFetchResponseGroup:
    result.topics = [topic for topic in result.topics if topic.name in allowed]
    return result


def _refused(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)


def _response(request: OffsetFetchRequest, version: int, groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    if version >= MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    result = groups[0]
    if result.error_code and version < GROUP_ERROR_SINCE:
        error = ErrorCode(result.error_code)
        result.topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_no_offset(index, error) for index in topic.partition_indexes]
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(error_code=result.error_code, topics=[_topic_v7(topic) for topic in result.topics])


def _encoded(context: RequestContext, response: OffsetFetchResponse) -> NowOrLater[OffsetFetchResponse]:
    """A response about few groups, which may have very many offsets."""
    if context.charged is not None:
        return response  # encoded already, as very many groups are
    count = sum(len(topic.partitions) for topic in response.topics)
    count += sum(len(topic.partitions) for group in response.groups for topic in group.topics)
    return encode_in_slices(context, response) if count > SLICE_PARTITIONS else response


def _topic_v7(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
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
    """The same error for every group; before version 2, for every partition."""
    refused = [_refused(group, KafkaError(code)) for group in _requested_groups(request, version)]
    return _response(request, version, refused)


API = Api(ApiKey.OFFSET_FETCH, served=(1, 10), handle=handle, error_response=error_response, sliced=True)
