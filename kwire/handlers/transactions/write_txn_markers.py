"""WriteTxnMarkers (API key 27): write the end markers of transactions to partitions that this broker leads.

Behaviour: sent by transaction coordinators, and by administrators who abort a hanging transaction (KIP-664). Each
partition succeeds or fails by itself, once its marker is committed: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
INVALID_PRODUCER_EPOCH (the producer has a newer epoch), TRANSACTION_COORDINATOR_FENCED (a newer coordinator has written
a marker). A marker without an open transaction is harmless.

Versions: 1 flexible; 2 the version of the transaction: at 2, a marker's epoch must be above that of its records
(KIP-1228).
"""

from __future__ import annotations

import asyncio

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.base.topic_partition import TopicPartition
from kwire.codec.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from kwire.codec.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.markers import committed
from kwire.coordinator.transactions.remote_markers import Marker
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER, CLUSTER_ACTION, is_allowed
from kwire.handlers.context import Purpose, RequestContext
from kwire.security.acls.operations import Operation

Errors = dict[TopicPartition, ErrorCode]


def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> NowOrLater[WriteTxnMarkersResponse]:
    """Write all markers, then respond or wait for their commit."""
    writer = context.services.transactions.markers
    written = []
    for requested in request.markers:
        marker = Marker(
            requested.producer_id,
            requested.producer_epoch,
            requested.transaction_result,
            requested.coordinator_epoch,
            requested.transaction_version,
        )
        partitions = [(topic.name, index) for topic in requested.topics for index in topic.partition_indexes]
        written.append(writer.write(marker, partitions, here=True))
    all_errors = [errors for errors, _ in written]
    commits = [commits for _, commits in written]
    return _wait(request, all_errors, commits) if any(commits) else _response(request, all_errors)


async def _wait(
    request: WriteTxnMarkersRequest, all_errors: list[Errors], commits: list[dict[TopicPartition, asyncio.Future[None]]]
) -> WriteTxnMarkersResponse:
    for errors, waiting in zip(all_errors, commits, strict=True):
        errors.update(await committed(waiting))
    return _response(request, all_errors)


def _response(request: WriteTxnMarkersRequest, all_errors: list[Errors]) -> WriteTxnMarkersResponse:
    results = [_result(requested, errors) for requested, errors in zip(request.markers, all_errors, strict=True)]
    return WriteTxnMarkersResponse(markers=results)


def _result(requested: WritableTxnMarker, errors: Errors) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=requested.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(errors[topic.name, index]))
                    for index in topic.partition_indexes
                ],
            )
            for topic in requested.topics
        ],
    )


def operations(request: WriteTxnMarkersRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster, or CLUSTER_ACTION."""
    return () if is_allowed(context, *ALTER_CLUSTER, Purpose.CHOICE) else CLUSTER_ACTION


def error_response(
    request: WriteTxnMarkersRequest, version: int, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    """The same error for every partition."""
    failed = [
        {(topic.name, index): code for topic in requested.topics for index in topic.partition_indexes}
        for requested in request.markers
    ]
    return _response(request, failed)


API = Api(ApiKey.WRITE_TXN_MARKERS, served=(1, 2), handle=handle, operations=operations, error_response=error_response)
