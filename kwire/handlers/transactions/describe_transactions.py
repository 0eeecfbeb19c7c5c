"""DescribeTransactions (API key 65): the state of transactional ids, for administrators (KIP-664).

Behaviour: each id for itself; TRANSACTIONAL_ID_NOT_FOUND, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and the
coordinator's errors. Topics that the principal may not describe are left out.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import AclOperation, RequestContext
from kwire.handlers.groups.group_calls import may
from kwire.handlers.transactions.transaction_calls import may_use


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    """Answered at once."""
    return DescribeTransactionsResponse(transaction_states=[_one(each, context) for each in request.transactional_ids])


def _one(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        return _describe(transactional_id, context)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    if not may_use(context, AclOperation.DESCRIBE, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    found = context.services.transactions.describe(transactional_id)
    if found is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, index in found.partitions:
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.text,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
            if may(context, AclOperation.DESCRIBE, topic)
        ],
    )


def error_response(
    request: DescribeTransactionsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeTransactionsResponse:
    states = [TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


API = Api(ApiKey.DESCRIBE_TRANSACTIONS, served=(0, 0), handle=handle, error_response=error_response)
