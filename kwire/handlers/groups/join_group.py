"""JoinGroup (API key 11): become, or stay, a member of a group of the classic protocol.

Behaviour:

* The response waits for the end of the rebalance: until all members have joined, or the longest rebalance timeout is
  over (for an empty group, first ``group.initial.rebalance.delay.ms``).
* The leader gets all members' metadata. A leader that rejoins, or a member with new metadata, starts a rebalance; a
  follower that lost its response gets its current generation.
* INVALID_SESSION_TIMEOUT outside ``group.{min,max}.session.timeout.ms``, INCONSISTENT_GROUP_PROTOCOL if no protocol
  would be common to all, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, INVALID_GROUP_ID.

Versions: 0 the session timeout is also the rebalance timeout; 1 rebalance timeout (KIP-62); 4 MEMBER_ID_REQUIRED: a new
member gets its id first (KIP-394); 5 group instance id (KIP-345); 6 flexible; 7 the response has the protocol type, and
no protocol name if the join failed (KIP-559); 8 reason (KIP-800); 9 a static leader that returns may skip the
assignment (KIP-814).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.join_group_request import JoinGroupRequest
from kwire.codec.messages.join_group_response import JoinGroupResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.groups.classic.rebalance import refusal
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import caller_of
from kwire.security.acls.operations import AclOperation, Operation

PROTOCOL_NAME_MAY_BE_NULL = 7


def handle(request: JoinGroupRequest, context: RequestContext) -> NowOrLater[JoinGroupResponse]:
    """Join; the coordinator responds at the end of the rebalance."""
    response = context.services.groups.join(request, caller_of(context))
    return response if context.api_version >= PROTOCOL_NAME_MAY_BE_NULL else then(response, _without_null)


def operations(request: JoinGroupRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


def error_response(request: JoinGroupRequest, version: int, code: ErrorCode, message: str | None) -> JoinGroupResponse:
    """A failed join; the protocol name is null from version 7 on."""
    response = refusal(code, request.member_id)
    return response if version >= PROTOCOL_NAME_MAY_BE_NULL else _without_null(response)


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    if response.protocol_name is None:
        response.protocol_name = ""
    return response


API = Api(ApiKey.JOIN_GROUP, served=(0, 9), handle=handle, operations=operations, error_response=error_response)
