"""SyncGroup (API key 14): the leader sends the assignment, and every member gets its part.

Behaviour:

* The response waits for the leader's request, and for its assignment to be in the log. In a stable group it is sent at
  once.
* Members that do not send SyncGroup within the rebalance timeout are removed, and the others rebalance.
* REBALANCE_IN_PROGRESS if a new rebalance has begun, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
  INVALID_GROUP_ID.

Versions: 3 group instance id (KIP-345); 4 flexible; 5 the member sends the protocol that it believes to be the group's:
INCONSISTENT_GROUP_PROTOCOL if it is another one, or if it is missing (KIP-559).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation, Operation

PROTOCOL_REQUIRED_SINCE = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> NowOrLater[SyncGroupResponse]:
    """Sync; the coordinator responds once there is an assignment."""
    _check_protocol(request, context)
    return context.services.groups.sync(request)


def operations(request: SyncGroupRequest, context: RequestContext) -> list[Operation]:
    """READ on the group. The request is checked first, as in Kafka."""
    _check_protocol(request, context)
    return [group_operation(AclOperation.READ, request.group_id)]


def _check_protocol(request: SyncGroupRequest, context: RequestContext) -> None:
    if context.api_version >= PROTOCOL_REQUIRED_SINCE and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


API = Api(ApiKey.SYNC_GROUP, served=(0, 5), handle=handle, operations=operations)
