"""ConsumerGroupDescribe (API key 69): groups of the consumer protocol, with epochs and both assignments (KIP-848).

Behaviour: each group has its own error: GROUP_ID_NOT_FOUND (also for a group of another type, which DescribeGroups
describes), INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED if one of the group's topics may
not be described, UNSUPPORTED_VERSION unless the cluster has finalised `group.version` 1, and the coordinator's errors.
A member's assignment includes the partitions that it has yet to revoke.

Versions: 1 which members use the classic protocol.
"""

from __future__ import annotations

from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed, require
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import denied_first, each_group, offers_consumer_groups
from kwire.security.acls.operations import AclOperation, ResourceType


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> NowOrLater[ConsumerGroupDescribeResponse]:
    """Describe each group; waits only for pending commits."""
    if not offers_consumer_groups(context):
        return error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION, None)
    operation = partial(_describe, context, request.include_authorized_operations)
    group_ids = sorted(
        context.services.groups.by_partition(request.group_ids), key=bool
    )  # refused empty ids come first
    return each_group(context, group_ids, operation, _refused, _response)


def _describe(context: RequestContext, with_operations: bool, group_id: str) -> NowOrLater[DescribedGroup]:
    require(context, group_operation(AclOperation.DESCRIBE, group_id))
    group = context.services.groups.describe_consumer_group(group_id)
    return then(group, partial(_finish, context, with_operations))


def _finish(context: RequestContext, with_operations: bool, group: DescribedGroup) -> DescribedGroup:
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if not all(is_topic_allowed(context, AclOperation.DESCRIBE, name) for name in sorted(names)):
            return _refused(group.group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    if with_operations:
        group.authorized_operations = authorizer.authorized_operations(context, ResourceType.GROUP, group.group_id)
    return group


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _response(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=denied_first(groups))


def error_response(
    request: ConsumerGroupDescribeRequest, version: int, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    """The same error for every group."""
    return _response([_refused(group_id, KafkaError(code, message)) for group_id in request.group_ids])


API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, served=(0, 1), handle=handle, error_response=error_response)
