"""AddPartitionsToTxn (API key 24): partitions become part of a producer's transaction, which begins with the first.

Behaviour:

* Answered when the transaction's new state is committed in ``__transaction_state``. INVALID_PRODUCER_ID_MAPPING: no
  such transactional id, or another producer id; PRODUCER_FENCED: another epoch; CONCURRENT_TRANSACTIONS: the last
  transaction is not quite over; INVALID_REQUEST: an empty transactional id.
* All or nothing: with a partition that is not there (UNKNOWN_TOPIC_OR_PARTITION), or may not be written
  (TOPIC_AUTHORIZATION_FAILED, internal topics included), the others are told OPERATION_NOT_ATTEMPTED.
* ``verify_only`` changes nothing: TRANSACTION_ABORTABLE for a partition that is not part of the transaction.

Versions: 0 to 3 for clients, one transaction; 1 throttled after the answer; 2 PRODUCER_FENCED (before:
INVALID_PRODUCER_EPOCH, KIP-588); 3 flexible; 4 for brokers (CLUSTER_ACTION), many transactions, verification
(KIP-890); 5 adds on behalf of producers that do not (KIP-890).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable
from functools import partial

from kwire.base.errors import ErrorCode, KafkaError
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
from kwire.coordinator.transactions.records import Partition
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType
from kwire.handlers.groups.group_calls import each, has_partition, may, then
from kwire.handlers.transactions.transaction_calls import EPOCH_BUMP, in_old_words, may_use, transactional_id_operation

BATCHED_SINCE = 4
_FENCED_SINCE = 2
Errors = dict[Partition, ErrorCode]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """One transaction, or one after the other."""
    if context.api_version >= BATCHED_SINCE:
        answers = each(request.transactions, partial(_one, context=context), _failed)
        return then(answers, lambda results: AddPartitionsToTxnResponse(results_by_transaction=results))
    return then(_one(_only(request), context), lambda result: _old(result.topic_results))


def _only(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """The one transaction of an old request."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _old(topics: list[AddPartitionsToTxnTopicResult]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _one(
    asked: AddPartitionsToTxnTransaction, context: RequestContext
) -> AddPartitionsToTxnResult | Awaitable[AddPartitionsToTxnResult]:
    try:
        errors = _add(asked, context)
    except KafkaError as error:
        return _result(asked, _all(asked, error.code))
    if inspect.isawaitable(errors):
        return _later(asked, errors)
    return _result(asked, errors)


async def _later(asked: AddPartitionsToTxnTransaction, errors: Awaitable[Errors]) -> AddPartitionsToTxnResult:
    try:
        return _result(asked, await errors)
    except KafkaError as error:
        return _result(asked, _all(asked, error.code))


def _add(asked: AddPartitionsToTxnTransaction, context: RequestContext) -> Errors | Awaitable[Errors]:
    version = context.api_version
    if version >= BATCHED_SINCE and not may_use(context, AclOperation.WRITE, asked.transactional_id):
        return _all(asked, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = _refused(asked, context)
    if refused:
        return {one: refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in _partitions(asked)}
    if not asked.transactional_id:
        return _all(asked, ErrorCode.INVALID_REQUEST)
    transactions = context.services.transactions
    producer = Producer(asked.producer_id, asked.producer_epoch)
    if asked.verify_only:
        return transactions.verify(asked.transactional_id, producer, list(_partitions(asked)))
    client_version = EPOCH_BUMP if version >= BATCHED_SINCE else 0
    error = transactions.add_partitions(asked.transactional_id, producer, list(_partitions(asked)), client_version)
    return then(error, lambda code: _all(asked, in_old_words(code, version, _FENCED_SINCE)))


def _refused(asked: AddPartitionsToTxnTransaction, context: RequestContext) -> Errors:
    """The partitions that cannot be written at all."""
    refused: Errors = {}
    image = context.services.image
    for topic in asked.topics:
        allowed = context.api_version >= BATCHED_SINCE or (
            topic.name not in INTERNAL_TOPICS and may(context, AclOperation.WRITE, topic.name)
        )
        for index in topic.partitions:
            if not allowed:
                refused[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not has_partition(image, topic.name, index):
                refused[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _partitions(asked: AddPartitionsToTxnTransaction) -> Iterable[Partition]:
    return ((topic.name, index) for topic in asked.topics for index in topic.partitions)


def _all(asked: AddPartitionsToTxnTransaction, error: ErrorCode) -> Errors:
    return dict.fromkeys(_partitions(asked), error)


def _result(asked: AddPartitionsToTxnTransaction, errors: Errors) -> AddPartitionsToTxnResult:
    topics = [_topic(topic, {index: errors[topic.name, index] for index in topic.partitions}) for topic in asked.topics]
    return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)


def _topic(topic: AddPartitionsToTxnTopic, errors: dict[int, ErrorCode]) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=int(error))
            for index, error in errors.items()
        ],
    )


def _failed(asked: AddPartitionsToTxnTransaction, error: KafkaError) -> AddPartitionsToTxnResult:
    return _result(asked, _all(asked, error.code))


def operations(request: AddPartitionsToTxnRequest, context: RequestContext) -> list[Operation]:
    """Writing under the transactional id, or being a broker."""
    if context.api_version >= BATCHED_SINCE:
        return [Operation(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)]
    return [transactional_id_operation(AclOperation.WRITE, request.v3_and_below_transactional_id)]


def error_response(
    request: AddPartitionsToTxnRequest, version: int, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    if version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=code)
    only = _only(request)
    return _old(_result(only, _all(only, code)).topic_results)


API = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN, served=(0, 5), handle=handle, operations=operations, error_response=error_response
)
