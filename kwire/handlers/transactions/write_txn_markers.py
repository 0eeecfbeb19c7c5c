"""WriteTxnMarkers (API key 27): write the ends of transactions to partitions that this broker leads.

Behaviour: sent by transaction coordinators, and by administrators who abort a hanging transaction (KIP-664). Each
partition succeeds or fails for itself, and is answered when its marker is committed: UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH (the producer has gone on), TRANSACTION_COORDINATOR_FENCED (a later
coordinator has written a marker). A marker without a transaction to end does no harm.

Versions: 1 flexible; 2 the version of the transaction: at 2 a marker's epoch must be above its records' (KIP-1228).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kwire.base.errors import ErrorCode
from kwire.codec.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from kwire.codec.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.markers import committed
from kwire.coordinator.transactions.records import Partition
from kwire.coordinator.transactions.remote_markers import Marker
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

Errors = dict[Partition, ErrorCode]


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Write all, then answer or wait."""
    writer = context.services.transactions.markers
    written = []
    for asked in request.markers:
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        partitions = [(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
        written.append(writer.write(marker, partitions, here=True))
    all_errors = [errors for errors, _ in written]
    commits = [commits for _, commits in written]
    return _wait(request, all_errors, commits) if any(commits) else _answer(request, all_errors)


async def _wait(
    request: WriteTxnMarkersRequest, all_errors: list[Errors], commits: list[dict[Partition, asyncio.Future[None]]]
) -> WriteTxnMarkersResponse:
    for errors, waiting in zip(all_errors, commits, strict=True):
        errors.update(await committed(waiting))
    return _answer(request, all_errors)


def _answer(request: WriteTxnMarkersRequest, all_errors: list[Errors]) -> WriteTxnMarkersResponse:
    results = [_result(asked, errors) for asked, errors in zip(request.markers, all_errors, strict=True)]
    return WriteTxnMarkersResponse(markers=results)


def _result(asked: WritableTxnMarker, errors: Errors) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(errors[topic.name, index]))
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )


def operations(request: WriteTxnMarkersRequest, context: RequestContext) -> list[Operation]:
    return [Operation(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)]


def error_response(
    request: WriteTxnMarkersRequest, version: int, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    failed = [
        {(topic.name, index): code for topic in asked.topics for index in topic.partition_indexes}
        for asked in request.markers
    ]
    return _answer(request, failed)


API = Api(ApiKey.WRITE_TXN_MARKERS, served=(1, 2), handle=handle, operations=operations, error_response=error_response)
