"""StreamsGroupDescribe (API key 89): streams groups with their topology, epochs, members and tasks (KIP-1071).

Behaviour: each group has its own error: GROUP_ID_NOT_FOUND (also for a group of another type), INVALID_GROUP_ID,
GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED if one of the topics of the topology may not be described,
UNSUPPORTED_VERSION unless the broker offers streams groups, and the coordinator's errors. The topology has the real
numbers of partitions once its topics are there, otherwise what the members have sent.
"""

from __future__ import annotations

from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.codec.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
    Topology,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import allowed_topics, group_operation, is_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import denied_first, each_group, offers_streams_groups
from kwire.security.acls.operations import AclOperation, ResourceType

_TOPICS_DENIED = "The described group uses topics that the client is not authorized to describe."


def handle(request: StreamsGroupDescribeRequest, context: RequestContext) -> NowOrLater[StreamsGroupDescribeResponse]:
    """Describe each group; waits only for pending commits."""
    if not offers_streams_groups(context):
        return error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION, None)
    operation = partial(_describe, context, request.include_authorized_operations)
    group_ids = sorted(context.services.groups.by_partition(request.group_ids), key=bool)  # empty ids come first
    return each_group(context, group_ids, operation, _refused, _response)


def _describe(context: RequestContext, with_operations: bool, group_id: str) -> NowOrLater[DescribedGroup]:
    if not is_allowed(context, group_operation(AclOperation.DESCRIBE, group_id)):
        return _refused(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    group = context.services.groups.describe_streams_group(group_id)
    return then(group, partial(_finish, context, with_operations))


def _finish(context: RequestContext, with_operations: bool, group: DescribedGroup) -> DescribedGroup:
    names = dict.fromkeys([] if group.topology is None else _topic_names(group.topology))
    if len(allowed_topics(context, AclOperation.DESCRIBE, names)) < len(names):
        return _refused(group.group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _TOPICS_DENIED))
    if with_operations:
        authorizer = context.services.authorizer
        group.authorized_operations = authorizer.authorized_operations(context, ResourceType.GROUP, group.group_id)
    return group


def _topic_names(topology: Topology) -> list[str]:
    names = []
    for subtopology in topology.subtopologies or ():
        names += [*subtopology.source_topics, *subtopology.repartition_sink_topics]
        names += [topic.name for topic in subtopology.repartition_source_topics]
        names += [topic.name for topic in subtopology.state_changelog_topics]
    return names


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _response(groups: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=denied_first(groups))


def error_response(
    request: StreamsGroupDescribeRequest, version: int, code: ErrorCode, message: str | None
) -> StreamsGroupDescribeResponse:
    """The same error for every group."""
    return _response([_refused(group_id, KafkaError(code, message)) for group_id in request.group_ids])


API = Api(ApiKey.STREAMS_GROUP_DESCRIBE, served=(0, 0), handle=handle, error_response=error_response)
