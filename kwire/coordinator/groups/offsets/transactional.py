"""TxnOffsetCommit: offsets committed inside a transaction, which take effect when the transaction commits.

`offsets.store` holds them until then. Commits outside transactions are in `offsets.protocol`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import at_once
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
from kwire.coordinator.runtime.long_operations import EstimatedPace
from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant, Result

COLLECTED_US: Final = 1
MADE_US: Final = 8
"""What it takes to take the record of an offset and describe the result, and to make a record, about."""


def commit(
    request: TxnOffsetCommitRequest, version: int, groups: Groups, settings: GroupSettings, now: Instant
) -> Result[TxnOffsetCommitResponse]:
    """TxnOffsetCommit. Raises KafkaError for all partitions if the member may not commit."""
    return at_once(commit_in_steps(request, version, groups, settings, now, (), EstimatedPace()))


def commit_in_steps(
    request: TxnOffsetCommitRequest,
    version: int,
    groups: Groups,
    settings: GroupSettings,
    now: Instant,
    made: Sequence[CoordinatorRecord | None],
    pace: EstimatedPace,
) -> Generator[None, None, Result[TxnOffsetCommitResponse]]:
    """The same for very many partitions; ``made`` are their records if they are made already (`records_of`)."""
    _check(request, version, groups)
    out: Result[TxnOffsetCommitResponse] = Result()
    records = iter(made) if made else _records(request, now.wall_ms, settings.offset_metadata_max_bytes)
    topics = []
    for topic in request.topics:
        responses = []
        for partition in topic.partitions:
            responses.append(_taken(partition.partition_index, next(records), out))
            if pace.spent(COLLECTED_US if made else MADE_US):
                yield
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=responses))
    out.response = TxnOffsetCommitResponse(topics=topics)
    return out


def records_of(
    request: TxnOffsetCommitRequest, wall_ms: int, metadata_max: int
) -> Generator[None, None, list[CoordinatorRecord | None]]:
    """The records of a commit of very many offsets, made in steps; None for an offset whose metadata are too large.
    They do not depend on the state of the group."""
    made = []
    pace = EstimatedPace()
    for record in _records(request, wall_ms, metadata_max):
        made.append(record)
        if pace.spent(MADE_US):
            yield
    return made


def _records(request: TxnOffsetCommitRequest, wall_ms: int, metadata_max: int) -> Iterator[CoordinatorRecord | None]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield _record(request.group_id, topic.name, partition, wall_ms, metadata_max)


def _record(
    group_id: str, topic: str, partition: TxnOffsetCommitRequestPartition, wall_ms: int, metadata_max: int
) -> CoordinatorRecord | None:
    """The record of an offset, None if its metadata are too large."""
    metadata = partition.committed_metadata or ""
    if utf16_length(metadata) > metadata_max:
        return None
    committed = _from_request(partition, metadata, wall_ms)
    return group_records.offset_commit(group_id, topic, partition.partition_index, committed)


def _taken(
    index: int, record: CoordinatorRecord | None, out: Result[TxnOffsetCommitResponse]
) -> TxnOffsetCommitResponsePartition:
    """The result of a partition, whose record is taken over."""
    if record is None:
        return TxnOffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE)
    out.records.append(record)
    return TxnOffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.NONE)


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
