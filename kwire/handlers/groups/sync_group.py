"""SyncGroup (API key 14): the leader brings the assignment, every member takes its part.

Behaviour:

* Parked until the leader's request is here and its assignment is in the log. In a stable group: answered at once.
* Members that do not send it within the rebalance timeout are out, and the others rebalance.
* REBALANCE_IN_PROGRESS when a new rebalance has begun, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
  INVALID_GROUP_ID.

Versions: 3 group instance id (KIP-345); 4 flexible; 5 the member says which protocol it believes to speak:
INCONSISTENT_GROUP_PROTOCOL when it is not the group's (KIP-559; a member that leaves it out is refused as well).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import group_operation

PROTOCOL_REQUIRED_SINCE = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Parked by the coordinator until there is an assignment."""
    if context.api_version >= PROTOCOL_REQUIRED_SINCE and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return context.services.groups.sync(request)


def operations(request: SyncGroupRequest, context: RequestContext) -> list[Operation]:
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.SYNC_GROUP, served=(0, 5), handle=handle, operations=operations)
