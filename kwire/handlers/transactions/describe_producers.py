"""DescribeProducers (API key 61): the active producers of partitions (KIP-664).

Behaviour: any replica of a partition responds, with the errors of finding it, and INVALID_TOPIC_EXCEPTION for an
impossible topic name. ``current_txn_start_offset`` is -1 for a producer without an open transaction.

Versions: 0.
"""

from __future__ import annotations

from functools import partial

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.cluster.controller.topics import check_name
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.codec.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import find_partition
from kwire.handlers.slices import each_partition
from kwire.security.acls.operations import AclOperation


def handle(request: DescribeProducersRequest, context: RequestContext) -> NowOrLater[DescribeProducersResponse]:
    """Describe the producers of every partition."""

    wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    return each_partition(context, wanted, partial(_describe, context), _topic, _response)


def _topic(name: str, partitions: list[PartitionResponse]) -> TopicResponse:
    return TopicResponse(name=name, partitions=partitions)


def _response(topics: list[TopicResponse]) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=topics)


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        check_name(topic)
        partition = find_partition(context, topic, b"", index, by_id=False, operation=AclOperation.READ)
        if not partition.following:
            partition.require_leader()
    except Exception as error:
        code, message = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("describe_producers", error)
        return PartitionResponse(partition_index=index, error_code=int(code), error_message=message)
    producers = partition.log.producer_state.producers
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
            for producer_id, entry in producers.items()
        ],
    )


def refuse(
    request: DescribeProducersRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeProducersResponse:
    """Every partition fails with the same error."""

    def failed(topic: TopicRequest) -> TopicResponse:
        partitions = [PartitionResponse(partition_index=each, error_code=int(code)) for each in topic.partition_indexes]
        return TopicResponse(name=topic.name, partitions=partitions)

    return DescribeProducersResponse(topics=[failed(topic) for topic in request.topics])


API = Api(ApiKey.DESCRIBE_PRODUCERS, served=(0, 0), handle=handle, error_response=refuse, sliced=True)
