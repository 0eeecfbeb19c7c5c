"""DeleteRecords (API key 21): make a partition begin at a later offset (KIP-107).

Behaviour: records below ``offset`` are deleted; -1 stands for the high watermark. The response comes when all replicas
on live brokers have deleted them, so that no later leader has them, and has the lowest log start offset of these
replicas. If that takes longer than the request's timeout: REQUEST_TIMED_OUT; the followers delete them later. Above the
high watermark, or negative: OFFSET_OUT_OF_RANGE. A topic that is compacted and never deleted from: POLICY_VIOLATION. An
internal topic: INVALID_TOPIC_EXCEPTION. If a partition is named twice, the last entry counts.

Versions: 1 throttled after the response (KIP-219); 2 flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater
from kwire.cluster.metadata.image import INTERNAL_TOPICS
from kwire.codec.messages.delete_records_request import DeleteRecordsRequest
from kwire.codec.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import find_partition
from kwire.security.acls.operations import AclOperation

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

_UNKNOWN = -1


def handle(request: DeleteRecordsRequest, context: RequestContext) -> NowOrLater[DeleteRecordsResponse]:
    """Delete the records of every partition, here and then at the followers."""
    waiting: list[_Deletion] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(topic.name, index, offset, context, waiting)
                    for index, offset in {each.partition_index: each.offset for each in topic.partitions}.items()
                ],
            )
            for topic in request.topics
        ]
    )
    return _when_deleted(response, waiting, request.timeout_ms / 1000) if waiting else response


def _delete(
    topic: str, index: int, offset: int, context: RequestContext, waiting: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_UNKNOWN)
    try:
        partition = find_partition(context, topic, b"", index, by_id=False, operation=AclOperation.DELETE)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.require_leader()
        if partition.log.config.compacts and not partition.log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        wanted = partition.high_watermark if offset == _UNKNOWN else offset
        partition.delete_records_before(offset)
        deletion = _Deletion(context, partition, wanted, result)
        if not deletion.check():
            waiting.append(deletion)
    except Exception as error:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("delete_records", error)
        result.error_code = int(code)
    return result


class _Deletion:
    """The wait for the followers of one partition."""

    def __init__(
        self, context: RequestContext, partition: Partition, wanted: int, result: DeleteRecordsPartitionResult
    ) -> None:
        self._context = context
        self._partition = partition
        self._wanted = wanted
        self._result = result
        self.done = asyncio.get_running_loop().create_future()
        result.low_watermark = partition.low_watermark(context.services.image.brokers)

    def check(self) -> bool:
        """Whether there is a result now."""
        result, partition = self._result, self._partition
        try:
            partition.require_leader()
        except KafkaError as error:
            result.error_code, result.low_watermark = int(error.code), _UNKNOWN
            return True
        low_watermark = partition.low_watermark(self._context.services.image.brokers)
        if low_watermark < self._wanted:
            return False
        result.low_watermark = low_watermark
        return True

    def begin(self) -> None:
        """Look again after each change of the partition."""
        self._partition.on_change(self._changed)

    def _changed(self) -> None:
        if not self.done.done() and self.check():
            self.done.set_result(None)

    def end(self) -> None:
        """No longer."""
        self._partition.off_change(self._changed)
        if not self.done.done():
            self.done.cancel()
            self._result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)


async def _when_deleted(
    response: DeleteRecordsResponse, waiting: Sequence[_Deletion], timeout_s: float
) -> DeleteRecordsResponse:
    for each in waiting:
        each.begin()
    try:
        await asyncio.wait([each.done for each in waiting], timeout=max(timeout_s, 0))
    finally:
        for each in waiting:
            each.end()
    return response


def refuse(request: DeleteRecordsRequest, version: int, code: ErrorCode, message: str | None) -> DeleteRecordsResponse:
    """Every partition fails with the same error."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=-1, error_code=int(code)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.DELETE_RECORDS, served=(0, 2), handle=handle, error_response=refuse)
