"""OffsetDelete (API key 47): delete committed offsets of a group (KIP-496).

Behaviour:

* The group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are no consumers), INVALID_GROUP_ID.
* A partition: GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED. A partition without a
  committed offset is no error.

Versions: 0.
"""

from __future__ import annotations

from functools import partial

from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
)
from kwire.codec.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, split_partitions
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation, Operation


def handle(request: OffsetDeleteRequest, context: RequestContext) -> NowOrLater[OffsetDeleteResponse]:
    """Refuse what does not exist or is not allowed; the coordinator checks the group and deletes the rest."""
    refused: list[OffsetDeleteResponseTopic] = []
    accepted: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        existing, others, error = split_partitions(context, AclOperation.READ, topic.name, topic.partitions)
        if others:
            failed = [
                OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in others
            ]
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=failed))
        if existing:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=existing))
    accepted_request = OffsetDeleteRequest(group_id=request.group_id, topics=accepted)
    return then(context.services.groups.delete_offsets(accepted_request), partial(_merged, refused))


def _merged(refused: list[OffsetDeleteResponseTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (*refused, *response.topics):
        first = topics.setdefault(topic.name, topic)
        if first is not topic:
            first.partitions.extend(topic.partitions)
    response.topics = list(topics.values())
    return response


def operations(request: OffsetDeleteRequest, context: RequestContext) -> list[Operation]:
    """DELETE on the group; topics are authorised one by one."""
    return [group_operation(AclOperation.DELETE, request.group_id)]


API = Api(ApiKey.OFFSET_DELETE, served=(0, 0), handle=handle, operations=operations)
