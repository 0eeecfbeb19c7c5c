"""LeaveGroup (API key 13): members leave; the others rebalance.

Behaviour:

* Several members at once, each with its own error: UNKNOWN_MEMBER_ID (also if there is no such group),
  FENCED_INSTANCE_ID. For the whole group: INVALID_GROUP_ID and the coordinator's errors.
* An administrator removes a static member by its group instance id, without a member id.

Versions: 0 to 2 one member, whose error is the response's; 3 a list of members (KIP-345); 4 flexible; 5 reasons
(KIP-800).
"""

from __future__ import annotations

from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.leave_group_response import LeaveGroupResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation, Operation

MANY_SINCE = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> NowOrLater[LeaveGroupResponse]:
    """Remove the members; a request before version 3 has one."""
    groups = context.services.groups
    if context.api_version >= MANY_SINCE:
        return groups.leave(request)
    request.members = [MemberIdentity(member_id=request.member_id)]
    return then(groups.leave(request), _only)


def _only(response: LeaveGroupResponse) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=response.members[0].error_code)


def operations(request: LeaveGroupRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.LEAVE_GROUP, served=(0, 5), handle=handle, operations=operations)
