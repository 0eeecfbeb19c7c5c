"""EndTxn (API key 26): a producer commits or aborts its transaction.

Behaviour:

* Answered when the decision is committed in ``__transaction_state``; the markers follow in a moment. Until they are
  all written, the transactional id answers CONCURRENT_TRANSACTIONS.
* INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED: not the producer that the coordinator knows. INVALID_TXN_STATE: nothing
  to end, or it was ended the other way. Repeating the last end is harmless.

Versions: 1 throttled after the answer; 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 TRANSACTION_ABORTABLE; 5 the epoch
rises with every end and the answer tells the next one, so that an end that comes late cannot hit the next transaction;
aborting without a transaction is allowed (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.end_txn_response import EndTxnResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.shard import Outcome, Producer
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, Operation, RequestContext
from kwire.handlers.groups.group_calls import then
from kwire.handlers.transactions.transaction_calls import EPOCH_BUMP, in_old_words, transactional_id_operation

BUMP_SINCE = 5
_FENCED_SINCE = 2


def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Answered when that is committed."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    version = context.api_version
    outcome = context.services.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_version=EPOCH_BUMP if version >= BUMP_SINCE else 0,
    )
    return then(outcome, lambda known: _answer(known, version))


def _answer(outcome: Outcome, version: int) -> EndTxnResponse:
    producer = outcome.producer
    error = in_old_words(outcome.error, version, _FENCED_SINCE)
    return EndTxnResponse(error_code=error, producer_id=producer.id, producer_epoch=producer.epoch)


def operations(request: EndTxnRequest, context: RequestContext) -> list[Operation]:
    return [transactional_id_operation(AclOperation.WRITE, request.transactional_id)]


API = Api(ApiKey.END_TXN, served=(0, 5), handle=handle, operations=operations)
