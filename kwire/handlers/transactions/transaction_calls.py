"""What handlers of transactional requests share: error codes for old clients, and adding partitions to a transaction
(or verifying them) before records are written.

The coordinator is in `kwire.coordinator.transactions`; handlers turn requests into calls and results into responses.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, attempt, then
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.metadata.image import TRANSACTIONS_TOPIC
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.coordinator.transactions.records import TransactionState
from kwire.coordinator.transactions.shard import Producer

if TYPE_CHECKING:
    from kwire.handlers.context import Services


class SupportedOperation(IntEnum):
    """How much of KIP-890 a request's version supports (Kafka's `TransactionSupportedOperation`)."""

    DEFAULT_ERROR = 0
    GENERIC_ERROR = 1
    """The client knows TRANSACTION_ABORTABLE."""
    ADD_PARTITION = 2
    """The broker adds the partitions to the transaction."""


EPOCH_BUMP: Final = 2
VERIFICATION: Final = "kafka.server:type=AddPartitionsToTxnManager,name="
"""Prefix of Kafka's metrics of verifications."""
_BROKERS_VERSION: Final = 5


def error_for_version(error: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """PRODUCER_FENCED only from the version ``fenced_since`` on; INVALID_PRODUCER_EPOCH before (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def join_transaction(
    services: Services,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    supported: SupportedOperation,
) -> NowOrLater[dict[TopicPartition, ErrorCode]]:
    """Verify that a producer's transaction has these partitions, or, with `SupportedOperation.ADD_PARTITION`, add them.
    Returns the error of each partition as the producer gets it; NONE where it may write.

    If the result comes later, the transaction may have ended since: check with `is_part_of` in the same turn of the
    event loop in which the records are written.
    """
    started_s = services.doors.clock.monotonic()

    def join() -> NowOrLater[dict[TopicPartition, ErrorCode]]:
        transactions = services.transactions
        leader = coordinator_elsewhere(services, transactional_id)
        if leader is not None:
            return _send_to(leader, services, transactional_id, producer, partitions, supported)
        if supported < SupportedOperation.ADD_PARTITION:
            return transactions.verify(transactional_id, producer, partitions)
        added = transactions.add_partitions(transactional_id, producer, partitions, EPOCH_BUMP)
        return then(added, lambda error: dict.fromkeys(partitions, error))

    found = attempt(join, lambda error: dict.fromkeys(partitions, error.code))
    return then(found, lambda errors: _verified(services, errors, supported, started_s))


def coordinator_elsewhere(services: Services, transactional_id: str) -> int | None:
    """The broker that coordinates a transactional id; None if it is this one, or unknown."""
    index = services.transactions.partition_of(transactional_id)
    state = None if index is None else services.image.partition(TRANSACTIONS_TOPIC, index)
    return None if state is None or state.leader in (-1, services.broker_id) else state.leader


async def _send_to(
    leader: int,
    services: Services,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    supported: SupportedOperation,
) -> dict[TopicPartition, ErrorCode]:
    """Send AddPartitionsToTxn to the broker that coordinates the transaction (KIP-890)."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=supported < SupportedOperation.ADD_PARTITION,
        topics=list(topics.values()),
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    found = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
    try:
        response = await services.peers.call(
            leader, request, _BROKERS_VERSION, timeout_s=services.config.request_timeout_ms / 1000
        )
    except (PeerUnavailable, KafkaError):
        return found
    if response.error_code:
        return dict.fromkeys(partitions, ErrorCode(response.error_code))
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for result in topic.results_by_partition:
                found[topic.name, result.partition_index] = ErrorCode(result.partition_error_code)
    return found


def _verified(
    services: Services, errors: dict[TopicPartition, ErrorCode], supported: SupportedOperation, started_s: float
) -> dict[TopicPartition, ErrorCode]:
    """The coordinator's errors as this client gets them; updates the metrics."""
    metrics = services.metrics
    metrics.histogram(VERIFICATION + "VerificationTimeMs").record(
        int((services.doors.clock.monotonic() - started_s) * 1000)
    )
    failed = sum(error is not ErrorCode.NONE for error in errors.values())
    if failed:
        metrics.meter(VERIFICATION + "VerificationFailureRate").count += failed
    return {partition: _error_for(error, supported) for partition, error in errors.items()}


def _error_for(error: ErrorCode, supported: SupportedOperation) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and supported < SupportedOperation.GENERIC_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return error


def is_part_of(services: Services, transactional_id: str, producer: Producer, partition: TopicPartition) -> bool:
    """Whether a partition is part of the ongoing transaction at this moment."""
    try:
        found = services.transactions.describe(transactional_id)
    except KafkaError:
        return False
    return (
        found is not None
        and found.state is TransactionState.ONGOING
        and producer == (found.producer_id, found.producer_epoch)
        and partition in found.partitions
    )
