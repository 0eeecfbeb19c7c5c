"""StreamsGroupHeartbeat (API key 88): an application of Kafka Streams joins its group, stays in it, leaves (KIP-1071).

Behaviour:

* Member epoch 0 joins (again) with the topology, -1 leaves; any other one is the epoch of the last response. Fields
  that have not changed are left out (null, or -1 for the rebalance timeout).
* The response is sent once the log has the changes of the request. It has the tasks if they changed or if the member
  joins, and the partitions by endpoint if the member does not know them yet (interactive queries).
* Statuses: 0 the member's topology is older than the group's, 1 source topics are missing, 2 topics do not fit
  together, 3 internal topics are missing (they are created in the background, if the client has CREATE), 4 a member
  has requested a shutdown of the application, 5 the assignment is delayed.
* INVALID_REQUEST, also for what Kafka 4.3 does not support: static members, task offsets, warm-up tasks, regular
  expressions, another topology; STREAMS_INVALID_TOPOLOGY; GROUP_ID_NOT_FOUND (no such group, or another type),
  UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (give up all tasks and join again), GROUP_MAX_SIZE_REACHED, and the
  coordinator's errors; with a message.
* UNSUPPORTED_VERSION unless the cluster has finalised `streams.version` 1 and
  `group.coordinator.rebalance.protocols` has ``streams``.
* TOPIC_AUTHORIZATION_FAILED if one of the topics of the topology may not be described.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, attempt, then
from kwire.cluster.controller.topics import name_problem
from kwire.cluster.metadata.image import INTERNAL_TOPICS
from kwire.codec.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kwire.codec.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.groups.streams.topology.checks import check_topic_names, topic_names
from kwire.handlers.api import Api
from kwire.handlers.authorization import allowed_topics, group_operation
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import caller_of, offers_streams_groups
from kwire.security.acls.operations import AclOperation, Operation

if TYPE_CHECKING:
    from kwire.coordinator.groups.streams.protocol import StreamsHeartbeat


def handle(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> NowOrLater[StreamsGroupHeartbeatResponse]:
    """Respond at once if nothing changes; otherwise once the change is committed."""
    if not offers_streams_groups(context):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return attempt(partial(_heartbeat, request, context), _refused)


def _heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> NowOrLater[StreamsGroupHeartbeatResponse]:
    if request.topology is not None:
        names = topic_names(request.topology)
        check_topic_names(names, INTERNAL_TOPICS.__contains__, lambda name: name_problem(name) is None)
        if len(allowed_topics(context, AclOperation.DESCRIBE, names)) < len(names):
            return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return then(context.services.groups.streams_heartbeat(request, caller_of(context)), partial(_finish, context))


def _finish(context: RequestContext, heartbeat: StreamsHeartbeat) -> StreamsGroupHeartbeatResponse:
    if heartbeat.missing_topics:
        from kwire.handlers.groups.streams.internal_topics import create_missing

        create_missing(context, heartbeat)
    return heartbeat.response


def _refused(error: KafkaError) -> StreamsGroupHeartbeatResponse:
    """The response to a refused request. Where Kafka fails, it has no message."""
    message = None if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else error.message
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=message)


def operations(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> list[Operation]:
    """READ on the group."""
    return [group_operation(AclOperation.READ, request.group_id)]


API = Api(ApiKey.STREAMS_GROUP_HEARTBEAT, served=(0, 0), handle=handle, operations=operations)
