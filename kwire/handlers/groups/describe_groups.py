"""DescribeGroups (API key 15): state and members of groups of the classic protocol.

Behaviour: members have their subscriptions only if the group is stable, and their assignments always (during a
rebalance, those of the previous generation). Each group has its own error. The group id may be empty, for old clients.

Versions: 3 authorized operations (KIP-430); 4 group instance ids (KIP-345); 5 flexible; 6 GROUP_ID_NOT_FOUND with a
message for a missing group, which earlier versions get as a Dead group without an error (KIP-1043).
"""

from __future__ import annotations

from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, require
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import denied_first, each_group
from kwire.security.acls.operations import AclOperation, ResourceType


def handle(request: DescribeGroupsRequest, context: RequestContext) -> NowOrLater[DescribeGroupsResponse]:
    """Describe each group; waits only for pending commits."""
    operation = partial(_describe, context, request.include_authorized_operations)
    group_ids = context.services.groups.by_partition(request.groups)
    return each_group(context, group_ids, operation, _refused, _response)


def _describe(context: RequestContext, with_operations: bool, group_id: str) -> NowOrLater[DescribedGroup]:
    require(context, group_operation(AclOperation.DESCRIBE, group_id))
    group = context.services.groups.describe(group_id, context.api_version)
    return then(group, partial(_with_operations, context)) if with_operations else group


def _with_operations(context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    if group.error_code == ErrorCode.NONE:
        authorizer = context.services.authorizer
        group.authorized_operations = authorizer.authorized_operations(context, ResourceType.GROUP, group.group_id)
    return group


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code)


def _response(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=denied_first(groups))


def error_response(
    request: DescribeGroupsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    """The same error for every group."""
    return _response([_refused(group_id, KafkaError(code)) for group_id in request.groups])


API = Api(ApiKey.DESCRIBE_GROUPS, served=(0, 6), handle=handle, error_response=error_response, sliced=True)
