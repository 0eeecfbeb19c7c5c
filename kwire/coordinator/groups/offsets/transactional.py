"""TxnOffsetCommit: offsets committed inside a transaction, which take effect when the transaction commits.

`offsets.store` holds them until then. Commits outside transactions are in `offsets.protocol`.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from kwire.codec.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.group import Groups, GroupSettings
from kwire.coordinator.groups.records import CommittedOffset
from kwire.coordinator.runtime.java_hash import utf16_length
from kwire.coordinator.runtime.machine import Instant, Result


def commit(
    request: TxnOffsetCommitRequest, version: int, groups: Groups, settings: GroupSettings, now: Instant
) -> Result[TxnOffsetCommitResponse]:
    """TxnOffsetCommit. Raises KafkaError for all partitions if the member may not commit."""
    _check(request, version, groups)
    out: Result[TxnOffsetCommitResponse] = Result()
    topics = []
    for topic in request.topics:
        responses = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error = ErrorCode.NONE
            if utf16_length(metadata) > settings.offset_metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = _from_request(partition, metadata, now.wall_ms)
                out.records.append(group_records.offset_commit(request.group_id, topic.name, index, committed))
            responses.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=responses))
    out.response = TxnOffsetCommitResponse(topics=topics)
    return out


def _check(request: TxnOffsetCommitRequest, version: int, groups: Groups) -> None:
    group = groups.find(request.group_id)
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    try:
        group.check_offset_commit(
            request.member_id, request.group_instance_id, request.generation_id, version=version, transactional=True
        )
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:  # TxnOffsetCommit does not define this error
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from None
        raise


def _from_request(partition: TxnOffsetCommitRequestPartition, metadata: str, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_ms=now_ms,
    )
