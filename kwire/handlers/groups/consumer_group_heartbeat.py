"""ConsumerGroupHeartbeat (API key 68): join a group of the new protocol, stay in it, leave it (KIP-848).

Behaviour:

* Member epoch 0 joins (again), -1 leaves, -2 leaves a static member's place open for its return; any other one is the
  epoch that the last answer told. What has not changed is left out (null, or -1 for the rebalance timeout).
* Answered when the log has what the request changed. The assignment is told where it changed, to who joins, and to who
  told everything about itself.
* INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION; GROUP_ID_NOT_FOUND (not there, of another type, or
  a classic one that cannot be taken over), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (give up all and join again),
  UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, and the coordinator's errors; with a message.
* UNSUPPORTED_VERSION while the cluster has not finalised `group.version` 1.
* TOPIC_AUTHORIZATION_FAILED if one of the topics subscribed to by name may not be described.

Versions: 0 the coordinator makes the ids of members; 1 members make them themselves (KIP-1082), and may subscribe by a
regular expression, which is RE2's (KIP-848).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import caller_of, group_operation, may, offers_consumer_groups

Answer = ConsumerGroupHeartbeatResponse


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Answer | Awaitable[Answer]:
    """Answered at once where nothing changes."""
    if not offers_consumer_groups(context):
        return Answer(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.services.authorizer.allows_all:
        for name in request.subscribed_topic_names or ():
            if not may(context, AclOperation.DESCRIBE, name):
                return Answer(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        answer = context.services.groups.consumer_heartbeat(request, caller_of(context))
    except KafkaError as error:
        return _refused(error)
    return _later(answer) if inspect.isawaitable(answer) else answer


async def _later(pending: Awaitable[Answer]) -> Answer:
    try:
        return await pending
    except KafkaError as error:
        return _refused(error)


def _refused(error: KafkaError) -> Answer:
    return Answer(error_code=error.code, error_message=error.message or error.code.name)


def operations(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> list[Operation]:
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, served=(0, 1), handle=handle, operations=operations)
