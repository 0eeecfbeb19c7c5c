"""What the handlers of transaction APIs share: names for old clients, and being part of a transaction before writing.

What the coordinator does is in `kwire.coordinator`; here requests are only taken apart and put together again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.coordinator.transactions.coordinator import TRANSACTIONS_TOPIC
from kwire.coordinator.transactions.records import Partition, TransactionState
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.context import AclOperation, Operation, RequestContext, ResourceType

if TYPE_CHECKING:
    from kwire.handlers.context import Services

ABORTABLE_SINCE: Final = 1
IMPLICIT_SINCE: Final = 2
"""How far a request goes along with KIP-890: it knows TRANSACTION_ABORTABLE; it adds partitions by itself."""

EPOCH_BUMP: Final = 2
VERIFICATION: Final = "kafka.server:type=AddPartitionsToTxnManager,name="
"""What Kafka calls the metrics of asking the coordinator before a write."""
_BROKERS_VERSION: Final = 5


def transactional_id_operation(operation: AclOperation, transactional_id: str) -> Operation:
    """What is asked of the principal on a transactional id."""
    return Operation(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)


def may_use(context: RequestContext, operation: AclOperation, transactional_id: str) -> bool:
    """Whether the principal may do something under a transactional id."""
    authorizer = context.services.authorizer
    return authorizer.allows_all or authorizer.authorize(
        context, transactional_id_operation(operation, transactional_id)
    )


def in_old_words(error: ErrorCode, version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED is told from a version on; before, it is INVALID_PRODUCER_EPOCH (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def join_transaction(
    services: Services, transactional_id: str, producer: Producer, partitions: Collection[Partition], knows: int
) -> dict[Partition, ErrorCode] | Awaitable[dict[Partition, ErrorCode]]:
    """Before a producer's records are written: its transaction has these partitions, or (``knows`` is
    `IMPLICIT_SINCE`) gets them. The error of each as a producer is told, and NONE where it may write.

    After waiting, look again with `is_part_of` in the turn of the loop in which the records are written.
    """
    transactions, clock = services.transactions, services.doors.clock
    started_s = clock.monotonic()
    leader = coordinator_elsewhere(services, transactional_id)
    found: dict[Partition, ErrorCode] | Awaitable[dict[Partition, ErrorCode]]
    try:
        if leader is not None:
            found = _ask_elsewhere(services, leader, transactional_id, producer, partitions, knows)
        elif knows < IMPLICIT_SINCE:
            found = transactions.verify(transactional_id, producer, partitions)
        else:
            added = transactions.add_partitions(transactional_id, producer, partitions, EPOCH_BUMP)
            found = dict.fromkeys(partitions, added) if isinstance(added, ErrorCode) else _for_each(added, partitions)
    except KafkaError as error:
        found = dict.fromkeys(partitions, error.code)
    if inspect.isawaitable(found):
        return _later(services, found, partitions, knows, started_s)
    return _verified(services, found, knows, started_s)


def coordinator_elsewhere(services: Services, transactional_id: str) -> int | None:
    """The other broker that coordinates an id; None if it is this one, or not known."""
    index = services.transactions.partition_of(transactional_id)
    state = None if index is None else services.image.partition(TRANSACTIONS_TOPIC, index)
    return None if state is None or state.leader in (-1, services.broker_id) else state.leader


async def _ask_elsewhere(
    services: Services,
    leader: int,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[Partition],
    knows: int,
) -> dict[Partition, ErrorCode]:
    """AddPartitionsToTxn, as brokers send it to each other (KIP-890)."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=knows < IMPLICIT_SINCE,
        topics=list(topics.values()),
    )
    request = AddPartitionsToTxnRequest(transactions=[asked])
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


async def _for_each(added: asyncio.Future[ErrorCode], partitions: Collection[Partition]) -> dict[Partition, ErrorCode]:
    return dict.fromkeys(partitions, await added)


async def _later(
    services: Services,
    found: Awaitable[dict[Partition, ErrorCode]],
    partitions: Collection[Partition],
    knows: int,
    started_s: float,
) -> dict[Partition, ErrorCode]:
    try:
        errors = await found
    except KafkaError as error:
        errors = dict.fromkeys(partitions, error.code)
    return _verified(services, errors, knows, started_s)


def _verified(
    services: Services, errors: dict[Partition, ErrorCode], knows: int, started_s: float
) -> dict[Partition, ErrorCode]:
    """What the coordinator said, in the words for this client, and counted."""
    metrics = services.metrics
    metrics.histogram(VERIFICATION + "VerificationTimeMs").record(
        int((services.doors.clock.monotonic() - started_s) * 1000)
    )
    failed = sum(error is not ErrorCode.NONE for error in errors.values())
    if failed:
        metrics.meter(VERIFICATION + "VerificationFailureRate").count += failed
    return {each: _told(error, knows) for each, error in errors.items()}


def _told(error: ErrorCode, knows: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and knows < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error


def is_part_of(services: Services, transactional_id: str, producer: Producer, partition: Partition) -> bool:
    """Whether a partition belongs to the transaction that is under way at this moment."""
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
