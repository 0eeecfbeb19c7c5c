"""TxnOffsetCommit (API key 28): commit a group's offsets as part of a producer's transaction (KIP-98).

Behaviour:

* The response is sent once the offsets are committed in ``__consumer_offsets``. They take effect when the transaction
  commits; until then, OffsetFetch with ``require_stable`` gets UNSTABLE_OFFSET_COMMIT.
* Per partition: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE. For all existing
  partitions: errors of the member (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID), of the transaction
  (INVALID_TXN_STATE or TRANSACTION_ABORTABLE: the group was not added to it; INVALID_PRODUCER_ID_MAPPING,
  INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS), and the coordinators' errors.

Versions: 1 throttled after the response; 2 leader epoch (KIP-320), COORDINATOR_LOAD_IN_PROGRESS (before:
COORDINATOR_NOT_AVAILABLE); 3 flexible, member and generation (KIP-447); 4 TRANSACTION_ABORTABLE; 5 adds the group to
the transaction implicitly (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, at_once, attempt, in_turns, is_later, resolved, then
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.runtime.machine import CoordinatorRecord
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.api import Api
from kwire.handlers.authorization import (
    group_operation,
    is_topic_allowed,
    transactional_id_operation,
)
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import has_partition
from kwire.handlers.slices import SLICE_PARTITIONS, encode_in_slices
from kwire.handlers.transactions.transaction_calls import (
    SupportedOperation,
    coordinator_elsewhere,
    is_part_of,
    join_transaction,
)
from kwire.security.acls.operations import AclOperation, Operation

_LOADING_SINCE = 2
_ERRORS_FOR_CLIENTS = {ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

IsOpen: TypeAlias = Callable[[], bool]
"""Whether the transaction of which the coordinator has told is still open: it may end while a commit waits for others
of its group."""

_Commit: TypeAlias = Callable[[IsOpen], NowOrLater[TxnOffsetCommitResponse]]
_Ids: TypeAlias = dict[str, bytes]


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> NowOrLater[TxnOffsetCommitResponse]:
    """Refuse what does not exist or is not allowed, and have the coordinators commit the rest."""
    if sum(len(topic.partitions) for topic in request.topics) > SLICE_PARTITIONS:
        return _handle_in_slices(request, context)
    accepted, refused = _split(request.topics, context)
    if not accepted:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = accepted
    commit = partial(context.services.groups.commit_transactional_offsets, request, context.api_version)
    return then(_committed(request, context, commit), partial(_merged, refused))


async def _handle_in_slices(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """Very many offsets are prepared in slices. They are committed together: the coordinator does nothing else for the
    group meanwhile."""
    groups = context.services.groups
    accepted, refused, ids = await in_turns(_split_in_steps(request.topics, context))
    request.topics = accepted
    made: Sequence[CoordinatorRecord | None] = await in_turns(groups.transactional_records(request))

    def commit(is_open: IsOpen) -> NowOrLater[TxnOffsetCommitResponse]:
        """Begin the commit. Offsets of a topic that was deleted until now would stay."""
        nonlocal made
        known = context.services.image.topics
        if not all(topic.name in known and known[topic.name].id == ids[topic.name] for topic in accepted):
            request.topics, others = _split(accepted, context)
            refused.extend(others)
            made = ()
        if not request.topics:
            return TxnOffsetCommitResponse()
        return groups.commit_many_transactional_offsets(request, context.api_version, made, is_open)

    response = TxnOffsetCommitResponse()
    if accepted:
        response = await resolved(_committed(request, context, commit))
    return await encode_in_slices(context, _merged(refused, response))


def _committed(
    request: TxnOffsetCommitRequest, context: RequestContext, commit: _Commit
) -> NowOrLater[TxnOffsetCommitResponse]:
    def failed(error: KafkaError) -> TxnOffsetCommitResponse:
        return error_response(request, context.api_version, error.code, None)

    return attempt(lambda: _commit(request, context, commit), failed)


def _commit(
    request: TxnOffsetCommitRequest, context: RequestContext, commit: _Commit
) -> NowOrLater[TxnOffsetCommitResponse]:
    """Verify that the group is part of the transaction (or add it), then write the offsets."""
    services, version = context.services, context.api_version
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    index = services.groups.partition_of(request.group_id)
    if index is None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    partition = (OFFSETS_TOPIC, index)
    supported = SupportedOperation.DEFAULT_ERROR
    if version >= 5:
        supported = SupportedOperation.ADD_PARTITION
    elif version >= 4:
        supported = SupportedOperation.GENERIC_ERROR
    if _is_verified(request, context, index, supported):
        return commit(partial(_is_verified, request, context, index, supported))
    producer = Producer(request.producer_id, request.producer_epoch)
    if coordinator_elsewhere(services, request.transactional_id) is not None:
        return _commit_verified(request, context, partition, supported, commit)
    is_open = partial(is_part_of, services, request.transactional_id, producer, partition)
    joined = join_transaction(services, request.transactional_id, producer, [partition], supported)
    if is_later(joined):
        return _commit_later(joined, partition, is_open, commit)
    _check(joined[partition])
    return commit(is_open)


def _is_verified(
    request: TxnOffsetCommitRequest, context: RequestContext, index: int, supported: SupportedOperation
) -> bool:
    """Whether the log has the transaction open, or verification is disabled."""
    services = context.services
    if supported < SupportedOperation.ADD_PARTITION and not services.config.transaction_partition_verification_enable:
        return True
    producers = services.replicas.partition(OFFSETS_TOPIC, index).log.producer_state
    producers.check_not_fenced(request.producer_id, request.producer_epoch)
    return producers.has_ongoing_transaction(request.producer_id, request.producer_epoch)


async def _commit_verified(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    partition: TopicPartition,
    supported: SupportedOperation,
    commit: _Commit,
) -> TxnOffsetCommitResponse:
    """Commit if another broker coordinates the transaction. A marker that arrives during the verification means that
    the transaction has ended; or, if the producer does not add groups itself, perhaps the previous one. In that case
    the verification is repeated once."""
    services = context.services
    producer = Producer(request.producer_id, request.producer_epoch)
    producers = services.replicas.partition(*partition).log.producer_state
    adds_partitions = supported >= SupportedOperation.ADD_PARTITION
    attempts = 2 if adds_partitions else 1
    for _ in range(attempts):
        guard = producers.start_verification(
            *producer, 0, supports_epoch_bump=adds_partitions, now_ms=services.doors.clock.time_ms()
        )
        errors = await resolved(join_transaction(services, request.transactional_id, producer, [partition], supported))
        _check(errors[partition])
        if producers.still_verified(*producer, guard):
            break
    else:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE if attempts == 1 else ErrorCode.CONCURRENT_TRANSACTIONS)
    return await resolved(commit(partial(producers.still_verified, *producer, guard)))


async def _commit_later(
    joined: Awaitable[dict[TopicPartition, ErrorCode]], partition: TopicPartition, is_open: IsOpen, commit: _Commit
) -> TxnOffsetCommitResponse:
    _check((await joined)[partition])
    if not is_open():
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)  # it has ended meanwhile
    return await resolved(commit(is_open))


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise KafkaError(_ERRORS_FOR_CLIENTS.get(error, error))


def _split(
    topics: Iterable[TxnOffsetCommitRequestTopic], context: RequestContext
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """The topics to commit, and the results of those that cannot be committed."""
    accepted, refused, _ = at_once(_split_in_steps(topics, context))
    return accepted, refused


def _split_in_steps(
    topics: Iterable[TxnOffsetCommitRequestTopic], context: RequestContext
) -> Generator[None, None, tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic], _Ids]]:
    """`_split` in steps, with the ids of the topics at the time."""
    accepted: list[TxnOffsetCommitRequestTopic] = []
    refused: list[TxnOffsetCommitResponseTopic] = []
    ids: _Ids = {}
    done = 0
    for topic in topics:
        is_allowed = is_topic_allowed(context, AclOperation.READ, topic.name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        known = context.services.image.topics.get(topic.name)
        ids.setdefault(topic.name, b"" if known is None else known.id)
        existing: list[TxnOffsetCommitRequestPartition] = []
        others: list[TxnOffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            if is_allowed and has_partition(context.services.image, topic.name, partition.partition_index):
                existing.append(partition)
            else:
                index = partition.partition_index
                others.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
            done += 1
            if done % SLICE_PARTITIONS == 0:
                yield
        if others or not is_allowed:
            refused.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=others))
        if existing:
            topic.partitions = existing
            accepted.append(topic)
    return accepted, refused, ids


def _topic(name: str, partitions: list[Any], error: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in partitions
        ],
    )


def _merged(refused: list[TxnOffsetCommitResponseTopic], response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """A response with one result per topic, refused partitions first."""
    if refused:
        merged: dict[str, TxnOffsetCommitResponseTopic] = {}
        for topic in (*refused, *response.topics):
            first = merged.setdefault(topic.name, topic)
            if first is not topic:
                first.partitions.extend(topic.partitions)
        response.topics = list(merged.values())
    return response


def operations(request: TxnOffsetCommitRequest, context: RequestContext) -> list[Operation]:
    """WRITE on the transactional id, READ on the group; topics are authorised one by one."""
    return [
        transactional_id_operation(AclOperation.WRITE, request.transactional_id),
        group_operation(AclOperation.READ, request.group_id),
    ]


def error_response(
    request: TxnOffsetCommitRequest, version: int, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    """The same error for every partition."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=[_topic(topic.name, topic.partitions, code) for topic in request.topics])


API = Api(
    ApiKey.TXN_OFFSET_COMMIT,
    served=(0, 5),
    handle=handle,
    operations=operations,
    error_response=error_response,
    sliced=True,
)
