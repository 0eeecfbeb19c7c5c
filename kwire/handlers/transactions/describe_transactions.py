"""DescribeTransactions (API key 65): the state of transactional ids, for administrators (KIP-664).

Behaviour: each id has its own error: TRANSACTIONAL_ID_NOT_FOUND, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and the
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
from kwire.handlers.authorization import is_topic_allowed, require, transactional_id_operation
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    """Describe each transactional id."""
    return DescribeTransactionsResponse(transaction_states=[_one(each, context) for each in request.transactional_ids])


def _one(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        return _describe(transactional_id, context)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    require(context, transactional_id_operation(AclOperation.DESCRIBE, transactional_id))
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
            if is_topic_allowed(context, AclOperation.DESCRIBE, topic)
        ],
    )


def error_response(
    request: DescribeTransactionsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeTransactionsResponse:
    """The same error for every transactional id."""
    states = [TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


API = Api(ApiKey.DESCRIBE_TRANSACTIONS, served=(0, 0), handle=handle, error_response=error_response)
