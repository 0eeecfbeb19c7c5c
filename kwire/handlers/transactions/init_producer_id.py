"""InitProducerId (API key 22): a producer id, by which the broker recognises repeated batches.

Behaviour:

* Without a transactional id, every request gets a new id with epoch 0. The ids come from blocks that the controller has
  persisted first, so none is used twice, not even after a crash. While no block is available:
  COORDINATOR_LOAD_IN_PROGRESS, which producers retry.
* With a transactional id, the coordinator responds once the change is committed: with the producer id of the
  transactional id and the next epoch, which fences the previous producer. An ongoing transaction is aborted first:
  CONCURRENT_TRANSACTIONS until that is done. INVALID_TRANSACTION_TIMEOUT: above `transaction.max.timeout.ms`, or not
  positive.
* An empty transactional id, or a producer id without its epoch (or the reverse): INVALID_REQUEST.

Versions: 1 throttled after the response (KIP-219); 2 flexible; 3 current id and epoch of a producer that continues
(KIP-360: without a transactional id it gets a new id); 4 PRODUCER_FENCED (before: INVALID_PRODUCER_EPOCH, KIP-588); 5
TRANSACTION_ABORTABLE (KIP-890). Version 6 (two-phase commit, KIP-939) is not served by Kafka 4.3 either.
"""

from __future__ import annotations

from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.init_producer_id_response import InitProducerIdResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.producer_ids import ProducerIds
from kwire.coordinator.transactions.shard import Outcome, Producer
from kwire.handlers.api import Api
from kwire.handlers.authorization import is_allowed, is_allowed_somewhere, transactional_id_operation
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.transactions.transaction_calls import error_for_version
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType

_NONE: Final = -1
_FENCED_SINCE: Final = 4


def operations(request: InitProducerIdRequest, context: RequestContext) -> list[Operation]:
    """WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic (KIP-679)."""
    if request.transactional_id is not None:
        return [transactional_id_operation(AclOperation.WRITE, request.transactional_id)]
    write = Operation(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    if is_allowed(context, write, Purpose.CHOICE) or is_allowed_somewhere(
        context, AclOperation.WRITE, ResourceType.TOPIC
    ):
        return []
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def handle(request: InitProducerIdRequest, context: RequestContext) -> NowOrLater[InitProducerIdResponse]:
    """Take a producer id from the block, or have the coordinator initialise the transactional id."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _transactional(request, request.transactional_id, context)
    ids = context.services.transactions.producer_ids
    producer_id = ids.take()
    return _wait(ids) if producer_id is None else _response(producer_id)


def _transactional(
    request: InitProducerIdRequest, transactional_id: str, context: RequestContext
) -> NowOrLater[InitProducerIdResponse]:
    services = context.services
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= services.config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    expected = None if request.producer_id == _NONE else Producer(request.producer_id, request.producer_epoch)
    outcome = services.transactions.init_producer_id(transactional_id, request.transaction_timeout_ms, expected)
    return then(outcome, lambda known: _outcome(known, context.api_version))


def _outcome(outcome: Outcome, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error_for_version(outcome.error, version, _FENCED_SINCE),
        producer_id=outcome.producer.id,
        producer_epoch=outcome.producer.epoch,
    )


async def _wait(ids: ProducerIds) -> InitProducerIdResponse:
    try:
        return _response(await ids.wait())
    except KafkaError:  # no controller, or no store: the producer retries
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from None


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def refuse(
    request: InitProducerIdRequest, version: int, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    """An error and no producer."""
    return InitProducerIdResponse(error_code=int(code), producer_id=_NONE, producer_epoch=_NONE)


API = Api(ApiKey.INIT_PRODUCER_ID, served=(0, 5), handle=handle, operations=operations, error_response=refuse)
