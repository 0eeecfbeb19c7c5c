"""Heartbeat (API key 12): a member is alive, and learns whether it has to join again.

Behaviour:

* Starts the member's session anew. REBALANCE_IN_PROGRESS: join again. ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
  FENCED_INSTANCE_ID: the group went on without this member. INVALID_GROUP_ID.
* While the coordinator loads its log everything is in order: members must not leave for that.

Versions: 3 group instance id (KIP-345); 4 flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import group_operation


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Answered at once, but for a commit that is under way."""
    try:
        return context.services.groups.heartbeat(request)
    except KafkaError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return HeartbeatResponse()


def operations(request: HeartbeatRequest, context: RequestContext) -> list[Operation]:
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.HEARTBEAT, served=(0, 4), handle=handle, operations=operations)
