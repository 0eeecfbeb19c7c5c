"""DeleteRecords (API key 21): make a partition begin at a later offset (KIP-107).

Behaviour: records below ``offset`` are deleted; -1 stands for the high watermark. The response has the new log start
offset (the current one if that is later already). Above the high watermark, or negative: OFFSET_OUT_OF_RANGE. A topic
that is compacted and never deleted from: POLICY_VIOLATION. An internal topic: INVALID_TOPIC_EXCEPTION. If a partition
is named twice, the last entry counts.

Versions: 1 throttled after the response (KIP-219); 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
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


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete the records of every partition; the response does not wait for the followers."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(topic.name, index, offset, context)
                    for index, offset in {each.partition_index: each.offset for each in topic.partitions}.items()
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(topic: str, index: int, offset: int, context: RequestContext) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        partition = find_partition(context, topic, b"", index, by_id=False, operation=AclOperation.DELETE)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.require_leader()
        if partition.log.config.compacts and not partition.log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        result.low_watermark = partition.log.delete_records_before(offset)
    except Exception as error:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("delete_records", error)
        result.error_code = int(code)
    return result


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
