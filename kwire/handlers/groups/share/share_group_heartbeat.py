"""ShareGroupHeartbeat (API key 76): a member of a share group joins, stays in the group, leaves (KIP-932).

Behaviour:

* Member epoch 0 joins (again) with the subscription, -1 leaves; any other one is the epoch of the last response, or the
  one before it. Fields that have not changed are left out (null).
* The response is sent once the log has the changes of the request. It has the member's partitions if it joins, if the
  request has a subscription, or if they have changed.
* Partitions that the share coordinators do not know yet are initialised in the background (`initialization`); only
  then are they assigned.
* INVALID_REQUEST, GROUP_ID_NOT_FOUND (no such group, or another type), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (give up
  all partitions and join again), GROUP_MAX_SIZE_REACHED, and the coordinator's errors; with a message.
* UNSUPPORTED_VERSION unless the cluster has finalised `share.version` 1.
* TOPIC_AUTHORIZATION_FAILED if one of the topics may not be described.

Version 1 is the first one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, attempt, then
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.codec.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import caller_of, offers_share_groups
from kwire.security.acls.operations import AclOperation, Operation

if TYPE_CHECKING:
    from kwire.coordinator.groups.share.protocol import ShareHeartbeat


def handle(request: ShareGroupHeartbeatRequest, context: RequestContext) -> NowOrLater[ShareGroupHeartbeatResponse]:
    """Respond at once if nothing changes; otherwise once the change is committed."""
    if not offers_share_groups(context):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.services.authorizer.allows_all:
        for name in request.subscribed_topic_names or ():
            if not is_topic_allowed(context, AclOperation.DESCRIBE, name):
                return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return attempt(partial(_heartbeat, request, context), _refused)


def _heartbeat(request: ShareGroupHeartbeatRequest, context: RequestContext) -> NowOrLater[ShareGroupHeartbeatResponse]:
    return then(context.services.groups.share_heartbeat(request, caller_of(context)), partial(_finish, context))


def _finish(context: RequestContext, heartbeat: ShareHeartbeat) -> ShareGroupHeartbeatResponse:
    if heartbeat.initialize is not None:
        from kwire.handlers.groups.share.initialization import initialize

        initialize(context.services, heartbeat.initialize)
    return heartbeat.response


def _refused(error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or error.code.name)


def operations(request: ShareGroupHeartbeatRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, served=(1, 1), handle=handle, operations=operations)
