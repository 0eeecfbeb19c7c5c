"""EndTxn (API key 26): commit or abort a producer's transaction.

Behaviour:

* The response is sent once the decision is committed in ``__transaction_state``; the markers follow. Until all are
  written, requests for the transactional id get CONCURRENT_TRANSACTIONS.
* INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED: not the current producer. INVALID_TXN_STATE: there is no transaction, or
  it has ended the other way. Repeating the last request is harmless.

Versions: 1 throttled after the response; 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 TRANSACTION_ABORTABLE; 5 every end
bumps the epoch, and the response has the new one, so that a late EndTxn cannot end the next transaction; aborting
without a transaction is allowed (KIP-890).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.end_txn_response import EndTxnResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.shard import Outcome, Producer
from kwire.handlers.api import Api
from kwire.handlers.authorization import transactional_id_operation
from kwire.handlers.context import RequestContext
from kwire.handlers.transactions.transaction_calls import EPOCH_BUMP, error_for_version
from kwire.security.acls.operations import AclOperation, Operation

BUMP_SINCE = 5
_FENCED_SINCE = 2


def handle(request: EndTxnRequest, context: RequestContext) -> NowOrLater[EndTxnResponse]:
    """End the transaction; the response is sent once the decision is committed."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    version = context.api_version
    outcome = context.services.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_version=EPOCH_BUMP if version >= BUMP_SINCE else 0,
    )
    return then(outcome, lambda known: _response(known, version))


def _response(outcome: Outcome, version: int) -> EndTxnResponse:
    producer = outcome.producer
    error = error_for_version(outcome.error, version, _FENCED_SINCE)
    return EndTxnResponse(error_code=error, producer_id=producer.id, producer_epoch=producer.epoch)


def operations(request: EndTxnRequest, context: RequestContext) -> list[Operation]:
    """WRITE on the transactional id."""
    return [transactional_id_operation(AclOperation.WRITE, request.transactional_id)]


API = Api(ApiKey.END_TXN, served=(0, 5), handle=handle, operations=operations)
