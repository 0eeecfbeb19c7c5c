"""DescribeGroups (API key 15): state and members of groups of the classic protocol.

Behaviour: subscriptions are told of a stable group only, assignments always (before a group is stable again they are
those of the generation before); each group has its own error. The group id may be empty, for the sake of old clients.

Versions: 3 authorized operations (KIP-430); 4 group instance ids (KIP-345); 5 flexible; 6 a missing group is
GROUP_ID_NOT_FOUND with a message, where it was a Dead group without an error before (KIP-1043).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, RequestContext, ResourceType
from kwire.handlers.groups.group_calls import each, group_operation, then


def handle(
    request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    """Answered from memory, but for commits that are under way."""
    operation = partial(_describe, context, request.include_authorized_operations)
    return then(each(request.groups, operation, _refused), _response)


def _describe(
    context: RequestContext, with_operations: bool, group_id: str
) -> DescribedGroup | Awaitable[DescribedGroup]:
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        authorizer.require(context, group_operation(AclOperation.DESCRIBE, group_id))
    answer = context.services.groups.describe(group_id, context.api_version)
    return then(answer, partial(_with_operations, context)) if with_operations else answer


def _with_operations(context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    if group.error_code == ErrorCode.NONE:
        authorizer = context.services.authorizer
        group.authorized_operations = authorizer.authorized_operations(context, ResourceType.GROUP, group.group_id)
    return group


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code)


def _response(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=groups)


def error_response(
    request: DescribeGroupsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    return _response([_refused(group_id, KafkaError(code)) for group_id in request.groups])


API = Api(ApiKey.DESCRIBE_GROUPS, served=(0, 6), handle=handle, error_response=error_response)
