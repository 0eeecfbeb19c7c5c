"""OffsetDelete (API key 47): forget how far a group has read (KIP-496).

Behaviour:

* The group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are no consumers), INVALID_GROUP_ID.
* A partition: GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED. That nothing was
  committed is no error.

Versions: 0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from kwire.base.errors import ErrorCode
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codec.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import group_operation, has_partition, may, then


def handle(
    request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Answer for what is not there; the coordinator decides on the rest, and on the group in any case."""
    image = context.services.image
    refused: list[OffsetDeleteResponseTopic] = []
    accepted: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        allowed = may(context, AclOperation.READ, topic.name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        there: list[OffsetDeleteRequestPartition] = []
        missing: list[OffsetDeleteRequestPartition] = []
        for asked in topic.partitions:
            found = allowed and has_partition(image, topic.name, asked.partition_index)
            (there if found else missing).append(asked)
        if missing:
            answers = [
                OffsetDeleteResponsePartition(partition_index=asked.partition_index, error_code=error)
                for asked in missing
            ]
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        if there:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
    wanted = OffsetDeleteRequest(group_id=request.group_id, topics=accepted)
    return then(context.services.groups.delete_offsets(wanted), partial(_merged, refused))


def _merged(refused: list[OffsetDeleteResponseTopic], answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (*refused, *answer.topics):
        first = topics.setdefault(topic.name, topic)
        if first is not topic:
            first.partitions.extend(topic.partitions)
    answer.topics = list(topics.values())
    return answer


def operations(request: OffsetDeleteRequest, context: RequestContext) -> list[Operation]:
    return [group_operation(AclOperation.DELETE, request.group_id)]


API = Api(ApiKey.OFFSET_DELETE, served=(0, 0), handle=handle, operations=operations)
