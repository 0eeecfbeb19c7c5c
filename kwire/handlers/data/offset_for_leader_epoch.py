"""OffsetForLeaderEpoch (API key 23): the end offset of a leader epoch, for clients that check if their log diverged.

Behaviour: the response has the largest epoch in the log that is not above ``leader_epoch``, and the offset at which the
next one began (the log end offset for the newest epoch); (-1, -1) for an epoch newer than all. ``current_leader_epoch``
is checked as in Fetch: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320). An unknown partition:
UNKNOWN_TOPIC_OR_PARTITION.

Versions: 2 current leader epoch (KIP-320); 3 replica id, which brokers fill in and which has no effect here;
4 flexible.
"""

from __future__ import annotations

from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater
from kwire.codec.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from kwire.codec.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.authorization import CLUSTER_ACTION, is_allowed, is_topic_allowed
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.slices import each_partition
from kwire.security.acls.operations import AclOperation


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> NowOrLater[OffsetForLeaderEpochResponse]:
    """Look the epoch up in every partition. Brokers (CLUSTER_ACTION) may ask about all topics."""
    trusted = is_allowed(context, *CLUSTER_ACTION, Purpose.CHOICE)

    wanted = [(topic.topic, topic.partitions) for topic in request.topics]
    return each_partition(context, wanted, partial(_look_up, context, trusted), _topic, _response)


def _topic(name: str, partitions: list[EpochEndOffset]) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(topic=name, partitions=partitions)


def _response(topics: list[OffsetForLeaderTopicResult]) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(context: RequestContext, trusted: bool, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    result = EpochEndOffset(partition=requested.partition)
    try:
        if not trusted and not is_topic_allowed(context, AclOperation.DESCRIBE, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.replicas.partition(topic, requested.partition)
        partition.require_leader(requested.current_leader_epoch)
        result.leader_epoch, result.end_offset = partition.log.end_offset_for_epoch(requested.leader_epoch)
    except Exception as error:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("offset_for_leader_epoch", error)
        result.error_code = int(code)
    return result


def refuse(
    request: OffsetForLeaderEpochRequest, version: int, code: ErrorCode, message: str | None
) -> OffsetForLeaderEpochResponse:
    """Every partition fails with the same error."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=requested.partition, error_code=int(code))
                    for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, served=(2, 4), handle=handle, error_response=refuse, sliced=True)
