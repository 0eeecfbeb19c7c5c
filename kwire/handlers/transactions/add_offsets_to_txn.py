"""AddOffsetsToTxn (API key 25): a group's committed offsets become part of a producer's transaction.

Behaviour: the partition of ``__consumer_offsets`` that the group belongs to is added, with AddPartitionsToTxn's
errors. Producers whose every transaction has its own epoch do not ask: TxnOffsetCommit implies it (KIP-890).

Versions: 1 throttled after the answer; 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.groups.coordinator import OFFSETS_TOPIC
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.forwarding import auto_create
from kwire.handlers.groups.group_calls import group_operation, then
from kwire.handlers.transactions.transaction_calls import in_old_words, transactional_id_operation

_FENCED_SINCE = 2


def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Answered when that is committed."""
    services = context.services
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    index = services.groups.partition_of(request.group_id)
    if index is None:
        return _create_and_add(request, context)
    producer = Producer(request.producer_id, request.producer_epoch)
    added = services.transactions.add_partitions(request.transactional_id, producer, [(OFFSETS_TOPIC, index)], 0)
    return then(added, lambda error: _answer(error, context.api_version))


async def _create_and_add(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    services = context.services
    await auto_create(services, [OFFSETS_TOPIC])
    index = services.groups.partition_of(request.group_id)
    if index is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer = Producer(request.producer_id, request.producer_epoch)
    added = services.transactions.add_partitions(request.transactional_id, producer, [(OFFSETS_TOPIC, index)], 0)
    return _answer(added if isinstance(added, ErrorCode) else await added, context.api_version)


def _answer(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=in_old_words(error, version, _FENCED_SINCE))


def operations(request: AddOffsetsToTxnRequest, context: RequestContext) -> list[Operation]:
    return [
        transactional_id_operation(AclOperation.WRITE, request.transactional_id),
        group_operation(AclOperation.READ, request.group_id),
    ]


API = Api(ApiKey.ADD_OFFSETS_TO_TXN, served=(0, 4), handle=handle, operations=operations)
