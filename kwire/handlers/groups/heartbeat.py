"""Heartbeat (API key 12): keep a member's session alive; the response says whether it has to rejoin.

Behaviour:

* The member's session starts again. REBALANCE_IN_PROGRESS: rejoin. ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
  FENCED_INSTANCE_ID: the group went on without this member. INVALID_GROUP_ID.
* While the coordinator loads its log, heartbeats succeed, so that members do not leave the group.

Versions: 3 group instance id (KIP-345); 4 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation, Operation


def handle(request: HeartbeatRequest, context: RequestContext) -> NowOrLater[HeartbeatResponse]:
    """Restart the session; waits only for a pending commit."""
    try:
        return context.services.groups.heartbeat(request)
    except KafkaError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return HeartbeatResponse()


def operations(request: HeartbeatRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.HEARTBEAT, served=(0, 4), handle=handle, operations=operations)
