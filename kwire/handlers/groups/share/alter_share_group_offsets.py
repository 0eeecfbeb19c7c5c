"""AlterShareGroupOffsets (API key 91): set the start offsets of a share group (KIP-932).

Behaviour:

* The share coordinators begin the partitions again at these offsets; what members have in flight is fenced. A group
  that does not exist is created.
* NON_EMPTY_GROUP if the group has members; GROUP_ID_NOT_FOUND if it is of another type; GROUP_AUTHORIZATION_FAILED
  without READ on the group; UNSUPPORTED_VERSION unless the cluster has finalised `share.version` 1; the coordinator's
  errors. For topics TOPIC_AUTHORIZATION_FAILED without READ, for partitions UNKNOWN_TOPIC_OR_PARTITION and the errors
  of share coordinators.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.base.uuids import ZERO_UUID
from kwire.codec.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.codec.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.codec.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import offers_share_groups
from kwire.handlers.partitions import has_partition
from kwire.security.acls.operations import AclOperation, Operation


async def handle(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> AlterShareGroupOffsetsResponse:
    """Respond when the share coordinators have the offsets."""
    if not offers_share_groups(context):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    services = context.services
    topics = [_checked(context, topic) for topic in request.topics]
    offsets = {
        topic.topic_name: [
            (each.partition_index, each.start_offset)
            for each, result in zip(topic.partitions, checked.partitions, strict=True)
            if not result.error_code
        ]
        for topic, checked in zip(request.topics, topics, strict=True)
    }
    begun = await resolved(services.groups.alter_share_offsets(request.group_id, offsets))
    if begun.topics:
        response = await services.share_persister().initialize(begun)
        known, failed = _outcome(response)
        await resolved(services.groups.share_partitions_initialized(request.group_id, known, failed))
        _add_errors(topics, response)
    return AlterShareGroupOffsetsResponse(responses=topics)


def _checked(context: RequestContext, topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    """The response for a topic before anything is done: what does not exist or is not allowed has an error."""
    name, image = topic.topic_name, context.services.image
    known = image.topics.get(name)
    if not is_topic_allowed(context, AclOperation.READ, name):
        errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * len(topic.partitions)
    else:
        errors = [
            ErrorCode.NONE if has_partition(image, name, each.partition_index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for each in topic.partitions
        ]
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=ZERO_UUID if known is None else known.id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code, error_message=code.name if code else None
            )
            for each, code in zip(topic.partitions, errors, strict=True)
        ],
    )


def _outcome(response: InitializeShareGroupStateResponse) -> tuple[dict[bytes, set[int]], dict[bytes, set[int]]]:
    """The partitions that have begun again, and the others."""
    known: dict[bytes, set[int]] = {}
    failed: dict[bytes, set[int]] = {}
    for topic in response.results:
        for each in topic.partitions:
            (failed if each.error_code else known).setdefault(topic.topic_id, set()).add(each.partition)
    return known, failed


def _add_errors(topics: list[AlterShareGroupOffsetsResponseTopic], response: InitializeShareGroupStateResponse) -> None:
    errors = {
        (topic.topic_id, each.partition): each
        for topic in response.results
        for each in topic.partitions
        if each.error_code
    }
    for topic in topics:
        for partition in topic.partitions:
            error = errors.get((topic.topic_id, partition.partition_index))
            if error is not None:
                partition.error_code, partition.error_message = error.error_code, error.error_message


def operations(request: AlterShareGroupOffsetsRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, served=(0, 0), handle=handle, operations=operations)
