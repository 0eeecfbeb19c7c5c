"""TxnOffsetCommit (API key 28): a group's positions, as part of a producer's transaction (KIP-98).

Behaviour:

* Answered when the positions are committed in ``__consumer_offsets``. They count when the transaction commits; until
  then readers who ask for stable positions are told UNSTABLE_OFFSET_COMMIT.
* Per partition: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE. For all that are
  there: what is wrong with the member (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID), with the transaction
  (INVALID_TXN_STATE or TRANSACTION_ABORTABLE: the group was not added to it; INVALID_PRODUCER_ID_MAPPING,
  INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS), and the coordinators' errors.

Versions: 1 throttled after the answer; 2 leader epoch (KIP-320), COORDINATOR_LOAD_IN_PROGRESS (before:
COORDINATOR_NOT_AVAILABLE); 3 flexible, member and generation (KIP-447); 4 TRANSACTION_ABORTABLE; 5 adds the group to
the transaction by itself (KIP-890).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kwire.codec.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.groups.coordinator import OFFSETS_TOPIC
from kwire.coordinator.transactions.records import Partition
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import group_operation, has_partition, may
from kwire.handlers.transactions.transaction_calls import (
    ABORTABLE_SINCE,
    IMPLICIT_SINCE,
    coordinator_elsewhere,
    is_part_of,
    join_transaction,
    transactional_id_operation,
)

_LOADING_SINCE = 2
_TOLD_IN_OTHER_WORDS = {ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def handle(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Answer for the partitions that are not there; the coordinators decide on all others."""
    accepted, refused = _sift(request, context)
    if not accepted:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = accepted
    try:
        answer = _commit(request, context)
    except KafkaError as error:
        answer = error_response(request, context.api_version, error.code, None)
    if inspect.isawaitable(answer):
        return _later(request, context, answer, refused)
    return _merged(answer, refused)


async def _later(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    answer: Awaitable[TxnOffsetCommitResponse],
    refused: list[TxnOffsetCommitResponseTopic],
) -> TxnOffsetCommitResponse:
    try:
        answered = await answer
    except KafkaError as error:
        answered = error_response(request, context.api_version, error.code, None)
    return _merged(answered, refused)


def _commit(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Make sure that the group is part of the transaction, then write."""
    services, version = context.services, context.api_version
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    index = services.groups.partition_of(request.group_id)
    if index is None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    partition = (OFFSETS_TOPIC, index)
    knows = IMPLICIT_SINCE if version >= 5 else ABORTABLE_SINCE if version >= 4 else 0
    if _needs_no_question(request, context, index, knows):
        return services.groups.commit_transactional_offsets(request, version)
    producer = Producer(request.producer_id, request.producer_epoch)
    if coordinator_elsewhere(services, request.transactional_id) is not None:
        return _commit_verified(request, context, partition, knows)
    joined = join_transaction(services, request.transactional_id, producer, [partition], knows)
    if inspect.isawaitable(joined):
        return _commit_later(request, context, partition, joined)
    _check(joined[partition])
    return services.groups.commit_transactional_offsets(request, version)


def _needs_no_question(request: TxnOffsetCommitRequest, context: RequestContext, index: int, knows: int) -> bool:
    services = context.services
    if knows < IMPLICIT_SINCE and not services.config.transaction_partition_verification_enable:
        return True
    producers = services.replicas.partition(OFFSETS_TOPIC, index).log.producer_state
    producers.check_not_fenced(request.producer_id, request.producer_epoch)
    return producers.has_ongoing_transaction(request.producer_id, request.producer_epoch)


async def _commit_verified(
    request: TxnOffsetCommitRequest, context: RequestContext, partition: Partition, knows: int
) -> TxnOffsetCommitResponse:
    """Another broker coordinates the transaction: what ends it while its answer is on the way is a marker here. For who
    has not added the group before, that may be the marker of the transaction before: then it is asked once more."""
    services = context.services
    producer = Producer(request.producer_id, request.producer_epoch)
    producers = services.replicas.partition(*partition).log.producer_state
    attempts = 2 if knows >= IMPLICIT_SINCE else 1
    for _ in range(attempts):
        verification = producers.start_verification(
            *producer, 0, supports_epoch_bump=knows >= IMPLICIT_SINCE, now_ms=services.doors.clock.time_ms()
        )
        joined = join_transaction(services, request.transactional_id, producer, [partition], knows)
        errors = await joined if inspect.isawaitable(joined) else joined
        _check(errors[partition])
        if producers.still_verified(*producer, verification):
            break
    else:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE if attempts == 1 else ErrorCode.CONCURRENT_TRANSACTIONS)
    answer = services.groups.commit_transactional_offsets(request, context.api_version)
    return await answer if inspect.isawaitable(answer) else answer


async def _commit_later(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    partition: Partition,
    joined: Awaitable[dict[Partition, ErrorCode]],
) -> TxnOffsetCommitResponse:
    services = context.services
    _check((await joined)[partition])
    producer = Producer(request.producer_id, request.producer_epoch)
    if not is_part_of(services, request.transactional_id, producer, partition):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)  # it was ended while this waited
    answer = services.groups.commit_transactional_offsets(request, context.api_version)
    return answer if isinstance(answer, TxnOffsetCommitResponse) else await answer


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise KafkaError(_TOLD_IN_OTHER_WORDS.get(error, error))


def _sift(
    request: TxnOffsetCommitRequest, context: RequestContext
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """The topics to commit, and the answers for what cannot be committed."""
    image = context.services.image
    accepted: list[TxnOffsetCommitRequestTopic] = []
    refused: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        if not may(context, AclOperation.READ, topic.name):
            refused.append(_topic(topic.name, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        there = [asked for asked in topic.partitions if has_partition(image, topic.name, asked.partition_index)]
        if len(there) < len(topic.partitions):
            missing = [
                asked for asked in topic.partitions if not has_partition(image, topic.name, asked.partition_index)
            ]
            refused.append(_topic(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if there:
            topic.partitions = there
            accepted.append(topic)
    return accepted, refused


def _topic(name: str, partitions: list[Any], error: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
            for asked in partitions
        ],
    )


def _merged(answer: TxnOffsetCommitResponse, refused: list[TxnOffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
    """One answer per topic, refused partitions first."""
    if refused:
        merged: dict[str, TxnOffsetCommitResponseTopic] = {}
        for topic in (*refused, *answer.topics):
            first = merged.setdefault(topic.name, topic)
            if first is not topic:
                first.partitions.extend(topic.partitions)
        answer.topics = list(merged.values())
    return answer


def operations(request: TxnOffsetCommitRequest, context: RequestContext) -> list[Operation]:
    return [
        transactional_id_operation(AclOperation.WRITE, request.transactional_id),
        group_operation(AclOperation.READ, request.group_id),
    ]


def error_response(
    request: TxnOffsetCommitRequest, version: int, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=[_topic(topic.name, topic.partitions, code) for topic in request.topics])


API = Api(ApiKey.TXN_OFFSET_COMMIT, served=(0, 5), handle=handle, operations=operations, error_response=error_response)
