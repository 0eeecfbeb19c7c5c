"""Responses to Produce requests that fail or wait, for the ordinary handler and for the fast path.

What lives elsewhere: appending (`produce.handler`, `produce.fast_path`) and the leader of a partition that moved
(`data.current_leader`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from kwire.base.errors import ErrorCode
from kwire.codec.messages.produce_request import PartitionProduceData
from kwire.codec.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from kwire.handlers.api import error_of
from kwire.handlers.context import RequestContext, Services
from kwire.handlers.data.current_leader import current_leader, endpoints
from kwire.handlers.data.produce.transactional import NotVerified
from kwire.log.common.append_info import NotOneBatch, RecordsRefused

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

CURRENT_LEADER_SINCE: Final = 10
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER

_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""Errors with which Kafka's response has no log start offset."""


def failure(
    data: PartitionProduceData, partition: Partition | None, error: Exception, services: Services
) -> PartitionProduceResponse:
    """The response for a partition that failed, with the fields that Kafka fills in: the log start offset unless the
    request was at fault or the records were never looked at, and messages only for records refused one by one."""
    code, message = error_of(error)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        services.log_failure("produce", error)
    response = PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
    if partition is not None:
        partition.metrics.failed_produce_requests += 1
        partition.metrics.bytes_rejected += len(cast("memoryview", data.records or b""))
        if code not in _WITHOUT_LOG_START and not isinstance(error, NotOneBatch | NotVerified):
            response.log_start_offset = partition.log_start_offset
    if isinstance(error, RecordsRefused | NotOneBatch | NotVerified):
        response.error_message = message
    if isinstance(error, RecordsRefused):
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
            for record in error.record_errors
        ]
    return response


async def respond_when_committed(
    response: ProduceResponse,
    pending: list[tuple[asyncio.Future[None], PartitionProduceResponse]],
    timeout_ms: int,
    context: RequestContext,
) -> ProduceResponse:
    """Wait for all partitions together, at most ``timeout_ms``. Each one that fails or takes longer
    (REQUEST_TIMED_OUT) gets its own error."""
    waits = [future for future, _ in pending]
    await asyncio.wait(waits, timeout=max(timeout_ms, 0) / 1000)
    for future, part in pending:
        if not future.done():
            future.cancel()
            _fail(part, ErrorCode.REQUEST_TIMED_OUT, None)
        elif (error := future.exception()) is not None:
            _fail(part, *error_of(error))
    add_current_leaders(response, context)
    return response


def add_current_leaders(response: ProduceResponse, context: RequestContext) -> None:
    """Name the new leader of each partition that this broker no longer leads, if the version has the field
    (KIP-951)."""
    leaders: dict[int, None] = {}
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code == _NOT_LEADER and context.api_version >= CURRENT_LEADER_SINCE:
                name = topic.name or topic.topic_id
                part.current_leader = current_leader(context, name, part.index, _NOT_LEADER, LeaderIdAndEpoch)
                leaders[part.current_leader.leader_id] = None
    if leaders:
        response.node_endpoints = endpoints(context, leaders, NodeEndpoint)


def _fail(part: PartitionProduceResponse, code: ErrorCode, message: str | None) -> None:
    part.error_code = code
    part.error_message = message
    part.base_offset = part.log_append_time_ms = part.log_start_offset = -1
