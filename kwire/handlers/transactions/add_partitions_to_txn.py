"""AddPartitionsToTxn (API key 24): add partitions to a producer's transaction, which the first ones begin.

Behaviour:

* The response is sent once the transaction's new state is committed in ``__transaction_state``.
  INVALID_PRODUCER_ID_MAPPING: no such transactional id, or another producer id; PRODUCER_FENCED: another epoch;
  CONCURRENT_TRANSACTIONS: the previous transaction has not ended yet; INVALID_REQUEST: an empty transactional id.
* All partitions are added, or none: if one does not exist (UNKNOWN_TOPIC_OR_PARTITION) or may not be written to
  (TOPIC_AUTHORIZATION_FAILED, also for internal topics), the others get OPERATION_NOT_ATTEMPTED.
* ``verify_only`` changes nothing: TRANSACTION_ABORTABLE for a partition that is not part of the transaction.

Versions: 0 to 3 for clients, one transaction; 1 throttled after the response; 2 PRODUCER_FENCED (before:
INVALID_PRODUCER_EPOCH, KIP-588); 3 flexible; 4 for brokers (CLUSTER_ACTION), many transactions, verification
(KIP-890); 5 adds partitions for producers that do not add them (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, attempt, for_each, then
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.metadata.image import INTERNAL_TOPICS
from kwire.codec.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.codec.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.api import Api
from kwire.handlers.authorization import CLUSTER_ACTION, is_topic_allowed, transactional_id_operation
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import has_partition
from kwire.handlers.transactions.transaction_calls import EPOCH_BUMP, error_for_version
from kwire.security.acls.operations import AclOperation, Operation

BATCHED_SINCE = 4
_FENCED_SINCE = 2
Errors = dict[TopicPartition, ErrorCode]


def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> NowOrLater[AddPartitionsToTxnResponse]:
    """Add or verify the partitions of one transaction, or of many at the same time."""
    if context.api_version >= BATCHED_SINCE:
        results_now_or_later = for_each(request.transactions, partial(_one, context=context), _failed)
        return then(results_now_or_later, lambda results: AddPartitionsToTxnResponse(results_by_transaction=results))
    return then(_one(_only(request), context), lambda result: _response_v3(result.topic_results))


def _only(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """The transaction of a request before version 4."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _response_v3(topics: list[AddPartitionsToTxnTopicResult]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _one(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> NowOrLater[AddPartitionsToTxnResult]:
    errors = attempt(lambda: _add(transaction, context), lambda error: _all(transaction, error.code))
    return then(errors, partial(_result, transaction))


def _add(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> NowOrLater[Errors]:
    version = context.api_version
    refused = _refused(transaction, context)
    if refused:
        return {
            partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
            for partition in _partitions(transaction)
        }
    if not transaction.transactional_id:
        return _all(transaction, ErrorCode.INVALID_REQUEST)
    transactions = context.services.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return transactions.verify(transaction.transactional_id, producer, list(_partitions(transaction)))
    client_version = EPOCH_BUMP if version >= BATCHED_SINCE else 0
    error = transactions.add_partitions(
        transaction.transactional_id, producer, list(_partitions(transaction)), client_version
    )
    return then(error, lambda code: _all(transaction, error_for_version(code, version, _FENCED_SINCE)))


def _refused(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> Errors:
    """The partitions that may not be written to or do not exist."""
    refused: Errors = {}
    image = context.services.image
    for topic in transaction.topics:
        allowed = context.api_version >= BATCHED_SINCE or (
            topic.name not in INTERNAL_TOPICS and is_topic_allowed(context, AclOperation.WRITE, topic.name)
        )
        for index in topic.partitions:
            if not allowed:
                refused[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not has_partition(image, topic.name, index):
                refused[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _partitions(transaction: AddPartitionsToTxnTransaction) -> Iterable[TopicPartition]:
    return ((topic.name, index) for topic in transaction.topics for index in topic.partitions)


def _all(transaction: AddPartitionsToTxnTransaction, error: ErrorCode) -> Errors:
    return dict.fromkeys(_partitions(transaction), error)


def _result(transaction: AddPartitionsToTxnTransaction, errors: Errors) -> AddPartitionsToTxnResult:
    topics = [
        _topic(topic, {index: errors[topic.name, index] for index in topic.partitions}) for topic in transaction.topics
    ]
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)


def _topic(topic: AddPartitionsToTxnTopic, errors: dict[int, ErrorCode]) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=int(error))
            for index, error in errors.items()
        ],
    )


def _failed(transaction: AddPartitionsToTxnTransaction, error: KafkaError) -> AddPartitionsToTxnResult:
    return _result(transaction, _all(transaction, error.code))


def operations(request: AddPartitionsToTxnRequest, context: RequestContext) -> tuple[Operation, ...]:
    """WRITE on the transactional id; from version 4 on, CLUSTER_ACTION."""
    if context.api_version >= BATCHED_SINCE:
        return CLUSTER_ACTION
    return (transactional_id_operation(AclOperation.WRITE, request.v3_and_below_transactional_id),)


def error_response(
    request: AddPartitionsToTxnRequest, version: int, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    """A top-level error; before version 4, the same error for every partition."""
    if version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=code)
    only = _only(request)
    return _response_v3(_result(only, _all(only, code)).topic_results)


API = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN, served=(0, 5), handle=handle, operations=operations, error_response=error_response
)
