"""AddOffsetsToTxn (API key 25): add a group's committed offsets to a producer's transaction.

Behaviour: the group's partition of ``__consumer_offsets`` is added, with the errors of AddPartitionsToTxn. Producers
with a new epoch for each transaction do not send this request: TxnOffsetCommit implies it (KIP-890).

Versions: 1 throttled after the response; 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, resolved, then
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, transactional_id_operation
from kwire.handlers.context import RequestContext
from kwire.handlers.forwarding import auto_create
from kwire.handlers.transactions.transaction_calls import error_for_version
from kwire.security.acls.operations import AclOperation, Operation

_FENCED_SINCE = 2


def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> NowOrLater[AddOffsetsToTxnResponse]:
    """Add the partition; the response is sent once that is committed."""
    services = context.services
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    index = services.groups.partition_of(request.group_id)
    if index is None:
        return _create_and_add(request, context)
    producer = Producer(request.producer_id, request.producer_epoch)
    added = services.transactions.add_partitions(request.transactional_id, producer, [(OFFSETS_TOPIC, index)], 0)
    return then(added, lambda error: _response(error, context.api_version))


async def _create_and_add(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    services = context.services
    await auto_create(context, [OFFSETS_TOPIC])
    index = services.groups.partition_of(request.group_id)
    if index is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer = Producer(request.producer_id, request.producer_epoch)
    added = services.transactions.add_partitions(request.transactional_id, producer, [(OFFSETS_TOPIC, index)], 0)
    return _response(await resolved(added), context.api_version)


def _response(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error_for_version(error, version, _FENCED_SINCE))


def operations(request: AddOffsetsToTxnRequest, context: RequestContext) -> list[Operation]:
    """WRITE on the transactional id, READ on the group."""
    return [
        transactional_id_operation(AclOperation.WRITE, request.transactional_id),
        group_operation(AclOperation.READ, request.group_id),
    ]


API = Api(ApiKey.ADD_OFFSETS_TO_TXN, served=(0, 4), handle=handle, operations=operations)
