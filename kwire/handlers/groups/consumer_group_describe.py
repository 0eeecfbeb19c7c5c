"""ConsumerGroupDescribe (API key 69): groups of the new protocol, with epochs and both assignments (KIP-848).

Behaviour: each group has its own error: GROUP_ID_NOT_FOUND (also for a group of another type, which DescribeGroups
describes), INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED where one of the group's topics may
not be described, UNSUPPORTED_VERSION while the cluster has not finalised `group.version` 1, and the coordinator's. The
assignment of a member is what it owns, with what it has yet to give up.

Versions: 1 tells which members speak the classic protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, RequestContext, ResourceType
from kwire.handlers.groups.group_calls import each, group_operation, may, offers_consumer_groups, then

Answer = ConsumerGroupDescribeResponse


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> Answer | Awaitable[Answer]:
    """Answered from memory, but for commits that are under way."""
    if not offers_consumer_groups(context):
        return error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION, None)
    operation = partial(_describe, context, request.include_authorized_operations)
    return then(each(request.group_ids, operation, _refused), _response)


def _describe(
    context: RequestContext, with_operations: bool, group_id: str
) -> DescribedGroup | Awaitable[DescribedGroup]:
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        authorizer.require(context, group_operation(AclOperation.DESCRIBE, group_id))
    answer = context.services.groups.describe_consumer_group(group_id)
    return then(answer, partial(_finish, context, with_operations))


def _finish(context: RequestContext, with_operations: bool, group: DescribedGroup) -> DescribedGroup:
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if not all(may(context, AclOperation.DESCRIBE, name) for name in sorted(names)):
            return _refused(group.group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    if with_operations:
        group.authorized_operations = authorizer.authorized_operations(context, ResourceType.GROUP, group.group_id)
    return group


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _response(groups: list[DescribedGroup]) -> Answer:
    return Answer(groups=groups)


def error_response(request: ConsumerGroupDescribeRequest, version: int, code: ErrorCode, message: str | None) -> Answer:
    return _response([_refused(group_id, KafkaError(code, message)) for group_id in request.group_ids])


API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, served=(0, 1), handle=handle, error_response=error_response)
