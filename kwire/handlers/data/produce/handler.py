"""Produce (API key 0): append record batches to partitions.

Behaviour:

- acks must be -1 (all in-sync replicas), 0 or 1; otherwise every partition gets INVALID_REQUIRED_ACKS.
- acks=0: there is no response. If a partition fails, the connection is closed, so that the client fetches metadata.
- acks=1: the response is sent once the batches are in the leader's log. acks=-1: once the high watermark has passed
  them; REQUEST_TIMED_OUT after ``timeout_ms``.
- Each partition succeeds or fails by itself. A batch that is refused because of single records names them
  (``record_errors``).
- A transactional batch is appended only once its partition is part of the transaction (`produce.transactional`).
- A large batch that has to be compressed anew is by a helper process, before anything of the request is appended
  (`produce.recompression`).
- The ordinary request, one batch for one partition, takes the fast path (`produce.fast_path`).
- If this broker no longer leads the partition, the response names the new leader (KIP-951), also if the leader changes
  while the request waits (`data.current_leader`).
- Internal topics get INVALID_TOPIC_EXCEPTION, unless the client id is `__admin_client`.
- A duplicate of an idempotent producer's recent batch gets the offset of the first copy.

Versions: 3 record batches v2 and transactional ids (KIP-98); 5 ``log_start_offset``; 7 zstd (KIP-110; earlier versions
get UNSUPPORTED_COMPRESSION_TYPE); 8 ``record_errors`` and ``error_message`` (KIP-467); 9 flexible; 10 the current
leader (KIP-951); 11 TRANSACTION_ABORTABLE, 12 implicit AddPartitionsToTxn (KIP-890); 13 topic ids (KIP-516). As in
Kafka, 0 to 2 are advertised but not served: without them, older librdkafka turns compression off (KAFKA-18659).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, is_later, resolved, then
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.produce_response import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, CloseConnection
from kwire.handlers.authorization import transactional_id_operation
from kwire.handlers.context import RequestContext
from kwire.handlers.data.produce import fast_path
from kwire.handlers.data.produce.answers import add_current_leaders, failure, respond_when_committed
from kwire.handlers.data.produce.recompression import Recompressed, Work, large_recompressions, recompress
from kwire.handlers.data.produce.transactional import (
    NotVerified,
    VerificationGuards,
    has_transactional,
    verification_guards,
)
from kwire.handlers.partitions import find_partition
from kwire.log.common.append_info import AppendInfo, NotOneBatch
from kwire.log.state.producer_state import NOT_REQUIRED, VerificationGuard
from kwire.security.acls.operations import AclOperation, Operation

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics."""

ALL: Final = -1
_NO_LEADER: Final = LeaderIdAndEpoch()
_ZSTD: Final = 4
_COMPRESSION_MASK: Final = 7
_ATTRIBUTES: Final = 22
"""Position of the low byte of the attributes in a batch."""


def handle(request: ProduceRequest, context: RequestContext) -> NowOrLater[ProduceResponse | None]:
    """Append all batches, then respond or wait."""
    acks = request.acks
    if acks not in (ALL, 0, 1):
        return refuse(request, context.api_version, ErrorCode.INVALID_REQUIRED_ACKS, None)
    work = large_recompressions(request, context)
    if work:
        context.exclusive = True  # no later batch of the producer may be appended before these
        return _recompress_and_append(work, request, context)
    return _verify_and_append(request, context, {})


async def _recompress_and_append(
    work: Work, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | None:
    return await resolved(_verify_and_append(request, context, await recompress(work, context)))


def _verify_and_append(
    request: ProduceRequest, context: RequestContext, recompressed: Recompressed
) -> NowOrLater[ProduceResponse | None]:
    if has_transactional(request):
        if request.transactional_id is None:
            return refuse(request, context.api_version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        guards = verification_guards(request, request.transactional_id, context)
        if is_later(guards):
            context.exclusive = True  # no later batch of the producer may be appended before these
            return then(guards, partial(_append_all, request, context, recompressed))
        return _append_all(request, context, recompressed, guards)
    return _append_all(request, context, recompressed, {})


def _append_all(
    request: ProduceRequest, context: RequestContext, recompressed: Recompressed, guards: VerificationGuards
) -> NowOrLater[ProduceResponse | None]:
    acks = request.acks
    response = ProduceResponse()
    pending: list[tuple[asyncio.Future[None], PartitionProduceResponse]] = []
    for topic in request.topic_data:
        parts = [
            _produce(
                topic, data, acks, context, pending, recompressed.get(id(data)), guards.get(id(data), NOT_REQUIRED)
            )
            for data in topic.partition_data
        ]
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)
        )
    if pending:
        return respond_when_committed(response, pending, request.timeout_ms, context)
    if acks:
        add_current_leaders(response, context)
        return response
    _check_no_failure(response)
    return None


def _produce(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    pending: list[tuple[asyncio.Future[None], PartitionProduceResponse]],
    recompressed: memoryview | KafkaError | None,
    guard: VerificationGuard | NotVerified | None,
) -> PartitionProduceResponse:
    """Append to one partition. A response that has to wait for the commit or the flush is added to ``pending``."""
    partition: Partition | None = None
    try:
        partition = find_partition(context, topic.name, topic.topic_id, data.index, by_id=context.api_version >= 13)
        partition.metrics.total_produce_requests += 1
        if isinstance(guard, NotVerified):
            raise guard
        info = _append(partition, data, acks, context, recompressed, guard)
    except Exception as error:
        return failure(data, partition, error, context.services)
    response = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
        current_leader=_NO_LEADER,
    )
    if acks == ALL:
        committed = partition.wait_committed(info.last_offset)
        if committed is not None:
            pending.append((committed, response))
    if info.flushed is not None and acks:
        pending.append((info.flushed, response))
    return response


def _append(
    partition: Partition,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    recompressed: memoryview | KafkaError | None,
    guard: VerificationGuard | None,
) -> AppendInfo:
    records = cast("memoryview | None", data.records)  # the decoder gives views of the frame
    if not records:
        raise NotOneBatch(ErrorCode.INVALID_RECORD)
    if context.api_version < 7 and len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & _COMPRESSION_MASK == _ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if partition.internal and context.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {partition.topic}")
    if isinstance(recompressed, KafkaError):
        raise recompressed
    return partition.append(recompressed or records, required_acks=acks, guard=guard)


def _check_no_failure(response: ProduceResponse) -> None:
    """With acks=0, the only way to report a failure is to close the connection: then the client fetches metadata."""
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code:
                raise CloseConnection(f"acks=0 and {topic.name}-{part.index}: {ErrorCode(part.error_code).name}")


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
    """WRITE on the transactional id; topics are authorised one by one."""
    if request.transactional_id is None:
        return ()
    return (transactional_id_operation(AclOperation.WRITE, request.transactional_id),)


API = Api(
    ApiKey.PRODUCE,
    served=(3, 13),
    advertised=(0, 13),
    handle=handle,
    operations=operations,
    error_response=refuse,
    pipelined=True,
    fast_path=fast_path.of_version,
    together=fast_path.together,
)
