"""DeleteShareGroupOffsets (API key 92): delete the offsets of a share group for topics (KIP-932).

Behaviour:

* The share coordinators forget the topics. The group begins them anew when a member subscribes to them.
* NON_EMPTY_GROUP if the group has members; GROUP_ID_NOT_FOUND if it does not exist or is of another type;
  GROUP_AUTHORIZATION_FAILED without DELETE on the group; UNSUPPORTED_VERSION unless the cluster has finalised
  `share.version` 1; the coordinator's errors. For topics TOPIC_AUTHORIZATION_FAILED without READ,
  UNKNOWN_TOPIC_OR_PARTITION for those that do not exist or have no offsets, and the errors of share coordinators.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kwire.codec.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kwire.codec.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import offers_share_groups
from kwire.security.acls.operations import AclOperation, Operation

Topic = DeleteShareGroupOffsetsResponseTopic


async def handle(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> DeleteShareGroupOffsetsResponse:
    """Respond when the share coordinators have forgotten the topics."""
    if not offers_share_groups(context):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    topics: list[Topic] = []
    names: list[str] = []
    for topic in request.topics:
        if is_topic_allowed(context, AclOperation.READ, topic.topic_name):
            names.append(topic.topic_name)
        else:
            topics.append(_failed(topic.topic_name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    forgetting = await resolved(context.services.groups.forget_share_offsets(request.group_id, names))
    topics += [_failed(name, error) for name, error in forgetting.failed]
    if forgetting.request is not None:
        topics += await _forget(context, forgetting.request)
    return DeleteShareGroupOffsetsResponse(responses=topics)


async def _forget(context: RequestContext, request: DeleteShareGroupStateRequest) -> list[Topic]:
    services = context.services
    names = {topic.topic_id: services.image.topics_by_id.get(topic.topic_id) for topic in request.topics}
    response = await services.share_persister().delete(request)
    topics, gone = [], []
    for result in response.results:
        known = names[result.topic_id]
        name = "" if known is None else known.name
        error = next((each for each in result.partitions if each.error_code), None)
        if error is None:
            gone.append(result.topic_id)
            topics.append(Topic(topic_name=name, topic_id=result.topic_id))
        else:
            message = error.error_message
            topics.append(
                Topic(topic_name=name, topic_id=result.topic_id, error_code=error.error_code, error_message=message)
            )
    if gone:
        await resolved(services.groups.share_offsets_forgotten(request.group_id, gone))
    return topics


def _failed(name: str, error: KafkaError) -> Topic:
    return Topic(topic_name=name, error_code=error.code, error_message=error.message or error.code.name)


def operations(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> list[Operation]:
    """DELETE on the group."""
    return [group_operation(AclOperation.DELETE, request.group_id)]


API = Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, served=(0, 0), handle=handle, operations=operations)
