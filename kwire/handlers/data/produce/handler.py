"""Produce (API key 0): append record batches to partitions.

Behaviour:

- acks must be -1 (all in-sync replicas), 0 or 1: INVALID_REQUIRED_ACKS for every partition otherwise.
- acks=0: nothing is answered; if a partition failed the connection is closed, which is all a client can be told.
- acks=1: answered as soon as the batches are in the leader's log; acks=-1: when the high watermark has passed them,
  REQUEST_TIMED_OUT after ``timeout_ms``.
- each partition succeeds or fails for itself; a batch refused for single records names them (``record_errors``).
- a transactional batch is appended only once its partition is part of the transaction (`produce_transactional`).
- the ordinary request, one batch for one partition, takes a shorter way: `produce_quick`.
- who leads instead is told to who comes too late (`current_leader`), also to who waits when the leader changes.
- a duplicate of an idempotent producer's recent batch is answered with the offset of the first time.

Versions: 3 record batches v2 and transactional ids (KIP-98); 5 ``log_start_offset``; 7 zstd (KIP-110: refused as
UNSUPPORTED_COMPRESSION_TYPE before); 8 ``record_errors`` and ``error_message`` (KIP-467); 9 flexible; 10 the current
leader (KIP-951); 11 TRANSACTION_ABORTABLE, 12 implicit AddPartitionsToTxn (KIP-890); 13 topic ids (KIP-516).
0 to 2 are advertised but not served, as in Kafka: older librdkafka turns compression off without them (KAFKA-18659).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, cast

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, CloseConnection, error_of
from kwire.handlers.context import AclOperation, Operation, RequestContext, ResourceType, Services
from kwire.handlers.data.current_leader import current_leader, endpoints
from kwire.handlers.data.produce import fast_path as produce_quick
from kwire.handlers.data.produce.transactional import NotVerified, Permits, has_transactional, permits
from kwire.handlers.partitions import find_partition
from kwire.log.common.append_info import AppendInfo, NotOneBatch, RecordsRefused
from kwire.log.state.producer_state import NOT_ASKED, Verification

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

ALL: Final = -1
_NO_LEADER: Final = LeaderIdAndEpoch()
_OVERTAKEN: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_ZSTD: Final = 4
_COMPRESSION_MASK: Final = 7
_ATTRIBUTES: Final = 22
"""Where in a batch the low byte of its attributes stands."""

_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)


Answer = ProduceResponse | Awaitable[ProduceResponse | None] | None


def handle(request: ProduceRequest, context: RequestContext) -> Answer:
    """Append everything at once, then answer or wait."""
    acks = request.acks
    if acks not in (ALL, 0, 1):
        return refuse(request, context.api_version, ErrorCode.INVALID_REQUIRED_ACKS, None)
    if has_transactional(request):
        if request.transactional_id is None:
            return refuse(request, context.api_version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        permitted = permits(request, request.transactional_id, context)
        if inspect.isawaitable(permitted):
            context.alone = True  # no batch of the producer may be written before these
            return _append_later(request, context, permitted)
        return _append_all(request, context, permitted)
    return _append_all(request, context, {})


async def _append_later(
    request: ProduceRequest, context: RequestContext, permitted: Awaitable[Permits]
) -> ProduceResponse | None:
    answer = _append_all(request, context, await permitted)
    return await answer if inspect.isawaitable(answer) else answer


def _append_all(request: ProduceRequest, context: RequestContext, permitted: Permits) -> Answer:
    acks = request.acks
    response = ProduceResponse()
    pending: list[tuple[asyncio.Future[None], PartitionProduceResponse]] = []
    for topic in request.topic_data:
        answers = [
            _produce(topic, data, acks, context, pending, permitted.get(id(data), NOT_ASKED))
            for data in topic.partition_data
        ]
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        response.responses.append(answer)
    if pending:
        return answer_when_committed(response, pending, request.timeout_ms, context)
    if acks:
        tell_leaders(response, context)
        return response
    _check_no_failure(response)
    return None


def _produce(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    pending: list[tuple[asyncio.Future[None], PartitionProduceResponse]],
    permit: Verification | NotVerified | None,
) -> PartitionProduceResponse:
    """One partition's part; what has yet to be committed or flushed joins ``pending``."""
    partition: Partition | None = None
    try:
        partition = find_partition(context, topic.name, topic.topic_id, data.index, by_id=context.api_version >= 13)
        partition.metrics.total_produce_requests += 1
        if isinstance(permit, NotVerified):
            raise permit
        info = _append(partition, data, acks, context, permit)
    except Exception as error:
        return failure(data, partition, error, context.services)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
        current_leader=_NO_LEADER,
    )
    if acks == ALL:
        committed = partition.wait_committed(info.last_offset)
        if committed is not None:
            pending.append((committed, answer))
    if info.flushed is not None and acks:
        pending.append((info.flushed, answer))
    return answer


def _append(
    partition: Partition, data: PartitionProduceData, acks: int, context: RequestContext, permit: Verification | None
) -> AppendInfo:
    records = cast("memoryview | None", data.records)  # what was decoded is a view of the frame
    if not records:
        raise NotOneBatch(ErrorCode.INVALID_RECORD)
    if context.api_version < 7 and len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & _COMPRESSION_MASK == _ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return partition.append(records, required_acks=acks, verification=permit)


def failure(
    data: PartitionProduceData, partition: Partition | None, error: Exception, services: Services
) -> PartitionProduceResponse:
    """A partition's failure, told with what Kafka tells of it: the log's start unless the request was at fault or the
    batch never got as far as the records, words only for records refused one by one."""
    code, message = error_of(error)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        services.log_failure("produce", error)
    answer = PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
    if partition is not None:
        partition.metrics.failed_produce_requests += 1
        partition.metrics.bytes_rejected += len(cast("memoryview", data.records or b""))
        if code not in _WITHOUT_LOG_START and not isinstance(error, NotOneBatch | NotVerified):
            answer.log_start_offset = partition.log_start_offset
    if isinstance(error, RecordsRefused | NotOneBatch | NotVerified):
        answer.error_message = message
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
            for record in error.record_errors
        ]
    return answer


async def answer_when_committed(
    response: ProduceResponse,
    pending: list[tuple[asyncio.Future[None], PartitionProduceResponse]],
    timeout_ms: int,
    context: RequestContext,
) -> ProduceResponse:
    """Wait for all partitions together; the ones that fail or take too long are told so, each for itself."""
    waits = [future for future, _ in pending]
    await asyncio.wait(waits, timeout=max(timeout_ms, 0) / 1000)
    for future, answer in pending:
        if not future.done():
            future.cancel()
            _fail(answer, ErrorCode.REQUEST_TIMED_OUT, None)
        elif (error := future.exception()) is not None:
            _fail(answer, *error_of(error))
    tell_leaders(response, context)
    return response


def tell_leaders(response: ProduceResponse, context: RequestContext) -> None:
    """Add who leads what this broker does not lead any more, where the version has room for it."""
    leaders: dict[int, None] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == _OVERTAKEN and context.api_version >= 10:
                name = topic.name or topic.topic_id
                answer.current_leader = current_leader(context, name, answer.index, _OVERTAKEN, LeaderIdAndEpoch)
                leaders[answer.current_leader.leader_id] = None
    if leaders:
        response.node_endpoints = endpoints(context, leaders, NodeEndpoint)


def _fail(answer: PartitionProduceResponse, code: ErrorCode, message: str | None) -> None:
    answer.error_code = code
    answer.error_message = message
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


def _check_no_failure(response: ProduceResponse) -> None:
    """acks=0: a failure can only be told by closing the connection, so that the client fetches metadata anew."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise CloseConnection(f"acks=0 and {topic.name}-{answer.index}: {ErrorCode(answer.error_code).name}")


def refuse(request: ProduceRequest, version: int, code: ErrorCode, message: str | None) -> ProduceResponse:
    """Every partition fails with the same error."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1, error_message=message)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def operations(request: ProduceRequest, context: RequestContext) -> Sequence[Operation]:
    """WRITE on the transactional id; topics are judged one by one."""
    if request.transactional_id is None:
        return ()
    return (Operation(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id),)


API = Api(
    ApiKey.PRODUCE,
    served=(3, 13),
    advertised=(0, 13),
    handle=handle,
    operations=operations,
    error_response=refuse,
    pipelined=True,
    quick=(produce_quick.FIRST_BY_NAME, produce_quick.answer),
)
