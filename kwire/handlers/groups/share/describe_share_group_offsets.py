"""DescribeShareGroupOffsets (API key 90): where share groups begin, and how far they are behind (KIP-932, KIP-1226).

Behaviour:

* For each group its topics and partitions, or all that have offsets (null). A partition without an offset has start
  offset -1.
* The lag is the number of records between the start offset and the end of the partition that still need a delivery; -1
  if it is not known.
* A group that does not exist has no offsets, which is no error. GROUP_AUTHORIZATION_FAILED; for topics that may not be
  described TOPIC_AUTHORIZATION_FAILED (among all topics they are left out); UNSUPPORTED_VERSION unless the cluster has
  finalised `share.version` 1; the coordinator's errors.

Versions: 0; 1 the lag.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, resolved
from kwire.codec.messages import read_share_group_state_summary_request as summaries
from kwire.codec.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.codec.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.codec.messages.read_share_group_state_summary_response import PartitionResult
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, is_topic_allowed, require
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import each_group, offers_share_groups
from kwire.handlers.groups.share.latest_offsets import latest_offsets
from kwire.security.acls.operations import AclOperation

UNKNOWN: Final = -1
Topic = DescribeShareGroupOffsetsResponseTopic
Partition = DescribeShareGroupOffsetsResponsePartition
Asked = dict[str, Iterable[int]]


def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> NowOrLater[DescribeShareGroupOffsetsResponse]:
    """Describe each group, after asking the share coordinators and the leaders of the partitions."""
    return each_group(context, request.groups, partial(_describe, context), _refused, _response)


def _response(groups: list[DescribeShareGroupOffsetsResponseGroup]) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _describe(
    context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    require(context, group_operation(AclOperation.DESCRIBE, asked.group_id))
    if not offers_share_groups(context):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    topics: list[Topic] = []
    wanted: Asked = {}
    if asked.topics is None:
        initialized = await resolved(context.services.groups.share_offsets(asked.group_id))
        names = {one.name: one.partitions for topic_id, one in initialized.items() if _exists(context, topic_id)}
        for name, partitions in names.items():
            if is_topic_allowed(context, AclOperation.DESCRIBE, name):
                wanted[name] = sorted(partitions)
    else:
        for topic in asked.topics:
            if not is_topic_allowed(context, AclOperation.DESCRIBE, topic.topic_name):
                topics.append(_failed(topic.topic_name, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif topic.topic_name not in context.services.image.topics:
                topics.append(_without_offsets(topic.topic_name, topic.partitions))
            else:
                wanted[topic.topic_name] = topic.partitions
    if wanted:
        topics += await _offsets(context, asked.group_id, wanted)
    return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=topics)


def _exists(context: RequestContext, topic_id: bytes) -> bool:
    return topic_id in context.services.image.topics_by_id


async def _offsets(context: RequestContext, group_id: str, wanted: Asked) -> list[Topic]:
    """What the share coordinators know, with the lags."""
    services = context.services
    ids = {services.image.topics[name].id: name for name in wanted}
    request = summaries.ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            summaries.ReadStateSummaryData(
                topic_id=topic_id,
                partitions=[summaries.PartitionData(partition=index) for index in wanted[name]],
            )
            for topic_id, name in ids.items()
        ],
    )
    response = await services.share_persister().read_summary(request)
    results = [(ids[topic.topic_id], topic.topic_id, topic.partitions) for topic in response.results]
    ends = await latest_offsets(
        services,
        [(name, each.partition) for name, _, found in results for each in found if _has_lag(each)],
    )
    return [
        Topic(
            topic_name=name,
            topic_id=topic_id,
            partitions=[_described(each, ends.get((name, each.partition))) for each in found],
        )
        for name, topic_id, found in results
    ]


def _has_lag(result: PartitionResult) -> bool:
    known = UNKNOWN not in (result.start_offset, result.delivery_complete_count)
    return not result.error_code and known


def _described(result: PartitionResult, end: int | KafkaError | None) -> Partition:
    if isinstance(end, KafkaError):
        message = end.message or end.code.name
        return Partition(partition_index=result.partition, error_code=end.code, error_message=message)
    if end is None:
        return Partition(
            partition_index=result.partition,
            start_offset=UNKNOWN if result.error_code else result.start_offset,
            leader_epoch=0 if result.error_code else result.leader_epoch,
        )
    return Partition(
        partition_index=result.partition,
        start_offset=result.start_offset,
        leader_epoch=result.leader_epoch,
        lag=end - result.start_offset - result.delivery_complete_count,
    )


def _failed(name: str, partitions: Iterable[int], code: ErrorCode) -> Topic:
    return Topic(
        topic_name=name,
        partitions=[
            Partition(partition_index=each, start_offset=UNKNOWN, error_code=code, error_message=code.name)
            for each in partitions
        ],
    )


def _without_offsets(name: str, partitions: Iterable[int]) -> Topic:
    """A topic that does not exist."""
    return Topic(
        topic_name=name, partitions=[Partition(partition_index=each, start_offset=UNKNOWN) for each in partitions]
    )


def _refused(asked: DescribeShareGroupOffsetsRequestGroup, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    message = error.message or error.code.name
    return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, error_code=error.code, error_message=message)


def error_response(
    request: DescribeShareGroupOffsetsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeShareGroupOffsetsResponse:
    """The same error for every group."""
    error = KafkaError(code, message)
    return DescribeShareGroupOffsetsResponse(groups=[_refused(group, error) for group in request.groups])


API = Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, served=(0, 1), handle=handle, error_response=error_response)
