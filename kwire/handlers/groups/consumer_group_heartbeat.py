"""ConsumerGroupHeartbeat (API key 68): join a group of the consumer protocol, stay in it, leave it (KIP-848).

Behaviour:

* Member epoch 0 joins (again), -1 leaves, -2 leaves temporarily (a static member that will return); any other one is
  the epoch of the last response. Fields that have not changed are left out (null, or -1 for the rebalance timeout).
* The response is sent once the log has the changes of the request. It has the assignment if that changed, if the member
  joins, or if the request has all fields.
* INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION; GROUP_ID_NOT_FOUND (no such group, another type, or
  a classic group that cannot be converted), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (revoke all and join again),
  UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, and the coordinator's errors; with a message.
* UNSUPPORTED_VERSION unless the cluster has finalised `group.version` 1.
* TOPIC_AUTHORIZATION_FAILED if one of the topics subscribed to by name may not be described.

Versions: 0 the coordinator generates member ids; 1 members generate them (KIP-1082), and may subscribe by a regular
expression in RE2's syntax (KIP-848).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, attempt
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import caller_of, offers_consumer_groups
from kwire.security.acls.operations import AclOperation, Operation


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> NowOrLater[ConsumerGroupHeartbeatResponse]:
    """Respond at once if nothing changes; otherwise once the change is committed."""
    if not offers_consumer_groups(context):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.services.authorizer.allows_all:
        for name in request.subscribed_topic_names or ():
            if not is_topic_allowed(context, AclOperation.DESCRIBE, name):
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    groups = context.services.groups
    return attempt(lambda: groups.consumer_heartbeat(request, caller_of(context)), _refused)


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or error.code.name)


def operations(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, served=(0, 1), handle=handle, operations=operations)
