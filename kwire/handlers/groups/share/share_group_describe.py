"""ShareGroupDescribe (API key 77): share groups with their epochs, members and assignments (KIP-932).

Behaviour: each group has its own error: GROUP_ID_NOT_FOUND (also for a group of another type), INVALID_GROUP_ID,
GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED if one of the assigned topics may not be described,
UNSUPPORTED_VERSION unless the cluster has finalised `share.version` 1, and the coordinator's errors.

Version 1 is the first one.
"""

from __future__ import annotations

from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.share_group_describe_request import ShareGroupDescribeRequest
from kwire.codec.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import allowed_topics, group_operation, is_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import denied_first, each_group, offers_share_groups
from kwire.security.acls.operations import AclOperation, ResourceType

_TOPICS_DENIED = "The group has described topic(s) that the client is not authorized to describe."


def handle(request: ShareGroupDescribeRequest, context: RequestContext) -> NowOrLater[ShareGroupDescribeResponse]:
    """Describe each group; waits only for pending commits."""
    if not offers_share_groups(context):
        return error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION, None)
    operation = partial(_describe, context, request.include_authorized_operations)
    group_ids = sorted(context.services.groups.by_partition(request.group_ids), key=bool)  # the empty id comes first
    return each_group(context, group_ids, operation, _refused, _response)


def _describe(context: RequestContext, with_operations: bool, group_id: str) -> NowOrLater[DescribedGroup]:
    if not is_allowed(context, group_operation(AclOperation.DESCRIBE, group_id)):
        return _refused(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    group = context.services.groups.describe_share_group(group_id)
    return then(group, partial(_finish, context, with_operations))


def _finish(context: RequestContext, with_operations: bool, group: DescribedGroup) -> DescribedGroup:
    if with_operations:
        authorizer = context.services.authorizer
        group.authorized_operations = authorizer.authorized_operations(context, ResourceType.GROUP, group.group_id)
    names = dict.fromkeys(topic.topic_name for member in group.members for topic in member.assignment.topic_partitions)
    if len(allowed_topics(context, AclOperation.DESCRIBE, names)) < len(names):
        return _refused(group.group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _TOPICS_DENIED))
    return group


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _response(groups: list[DescribedGroup]) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=denied_first(groups))


def error_response(
    request: ShareGroupDescribeRequest, version: int, code: ErrorCode, message: str | None
) -> ShareGroupDescribeResponse:
    """The same error for every group."""
    return _response([_refused(group_id, KafkaError(code, message)) for group_id in request.group_ids])


API = Api(ApiKey.SHARE_GROUP_DESCRIBE, served=(1, 1), handle=handle, error_response=error_response)
