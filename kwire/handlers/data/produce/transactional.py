"""The transactional part of Produce: a batch is appended only once its partition is part of the transaction (KIP-890).

Behaviour: where the partition's log has the producer's transaction open, the batch is appended at once. For all other
partitions, the transaction coordinator verifies that the partition was added, or, from version 12 on, adds it. While
the producer's previous transaction ends, the request is retried for a moment. A verification that completes after the
transaction has ended must not let the batch open a new one: the guard that the log gave for it is no longer valid then
(`kwire.log.state.producer_state.VerificationGuard`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, is_later, resolved
from kwire.base.topic_partition import TopicPartition
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import find_partition
from kwire.handlers.transactions.transaction_calls import SupportedOperation, join_transaction

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.log.state.producer_state import ProducerStateManager, VerificationGuard

_ATTRIBUTES: Final = 22
_TRANSACTIONAL: Final = 16
_MAGIC: Final = 16
_PRODUCER: Final = Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_AT: Final = 43

_COORDINATOR_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

VerificationGuards = dict[int, "VerificationGuard | NotVerified | None"]
"""By the `id` of a partition's data: the guard to append it with (None if the transaction is open already), or why it
cannot be appended."""


class NotVerified(KafkaError):
    """The coordinator did not verify the partition. Has a message where Kafka's response has one."""


class UnverifiedBatch(NamedTuple):
    """A batch whose partition has to be verified, and the guard that its log gave for the verification."""

    data: PartitionProduceData
    partition: TopicPartition
    producers: ProducerStateManager
    guard: VerificationGuard


def is_transactional(data: PartitionProduceData) -> bool:
    """Whether a partition's data begins with a transactional batch. Data that is no batch at all is left to the log,
    which refuses it."""
    records = cast("memoryview | None", data.records)
    return bool(
        records
        and len(records) > _ATTRIBUTES
        and records[_ATTRIBUTES] & _TRANSACTIONAL
        and records[_MAGIC] == 2
        and len(records) >= 12 + int.from_bytes(records[8:12], "big")
    )


def has_transactional(request: ProduceRequest) -> bool:
    """Whether any batch of the request is part of a transaction."""
    return any(is_transactional(data) for topic in request.topic_data for data in topic.partition_data)


def verification_guards(
    request: ProduceRequest, transactional_id: str, context: RequestContext
) -> NowOrLater[VerificationGuards]:
    """The guard of each partition's data, or why it may not be appended. INVALID_PRODUCER_ID_MAPPING: batches of more
    than one producer."""
    version = context.api_version
    supported = SupportedOperation.DEFAULT_ERROR
    if version >= 12:
        supported = SupportedOperation.ADD_PARTITION
    elif version >= 11:
        supported = SupportedOperation.GENERIC_ERROR
    verification_enabled = context.services.config.transaction_partition_verification_enable
    if supported < SupportedOperation.ADD_PARTITION and not verification_enabled:
        return {}
    verification = _Verification(request, transactional_id, context, supported)
    errors = verification.start()
    if is_later(errors):
        return _retry(verification, errors)
    return _retry(verification, None) if verification.is_too_soon(errors) else verification.guards(errors)


def _transactional_data(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if is_transactional(data):
                yield topic, data


def _partition(topic: TopicProduceData, index: int, context: RequestContext) -> Partition | None:
    """The partition, if this broker leads it; None if the append will fail anyway."""
    try:
        partition = find_partition(context, topic.name, topic.topic_id, index, by_id=context.api_version >= 13)
        partition.require_leader()
    except KafkaError:
        return None
    return partition


class _Verification:
    """The verification of one request: the batches to verify, and the guards found so far."""

    __slots__ = ("_guards", "_producer", "_request", "_supported", "_transactional_id", "_unverified", "context")

    def __init__(
        self, request: ProduceRequest, transactional_id: str, context: RequestContext, supported: SupportedOperation
    ) -> None:
        self._request = request
        self._transactional_id = transactional_id
        self.context = context
        self._supported = supported
        self._producer = Producer(-1, -1)
        self._unverified: list[UnverifiedBatch] = []
        self._guards: VerificationGuards = {}

    def start(self) -> NowOrLater[dict[TopicPartition, ErrorCode]]:
        """Start the verification, or start it again: guards taken before the marker of the previous transaction came
        are no longer valid."""
        self._collect()
        if not self._unverified:
            return {}
        partitions = [batch.partition for batch in self._unverified]
        services = self.context.services
        return join_transaction(services, self._transactional_id, self._producer, partitions, self._supported)

    def is_too_soon(self, errors: dict[TopicPartition, ErrorCode]) -> bool:
        """Whether the previous transaction has not ended yet, or had not when the verification started."""
        return any(self._error(batch, errors) is ErrorCode.CONCURRENT_TRANSACTIONS for batch in self._unverified)

    def guards(self, errors: dict[TopicPartition, ErrorCode]) -> VerificationGuards:
        """The guards, given the coordinator's errors."""
        for batch in self._unverified:
            error = self._error(batch, errors)
            if error is not ErrorCode.NONE:
                self._guards[id(batch.data)] = _not_verified(error, self._supported)
        return self._guards

    def _error(self, batch: UnverifiedBatch, errors: dict[TopicPartition, ErrorCode]) -> ErrorCode:
        """The coordinator's error; or CONCURRENT_TRANSACTIONS if the marker of the previous transaction came during the
        verification. (A producer that adds partitions itself has waited for that marker. For it, the marker ends the
        current transaction, and the log refuses the batch.)"""
        error = errors[batch.partition]
        outdated = not batch.producers.still_verified(*self._producer, batch.guard)
        if error is ErrorCode.NONE and self._supported >= SupportedOperation.ADD_PARTITION and outdated:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return error

    def _collect(self) -> None:
        """Find the partitions that have the transaction open, and those that have to be verified."""
        self._guards, self._unverified = {}, []
        producers: dict[Producer, None] = {}
        now_ms = self.context.services.doors.clock.time_ms()
        adds_partitions = self._supported >= SupportedOperation.ADD_PARTITION
        for topic, data in _transactional_data(self._request):
            producer_id, epoch, sequence = _PRODUCER.unpack_from(cast("memoryview", data.records), _PRODUCER_AT)
            self._producer = Producer(producer_id, epoch)
            producers[self._producer] = None
            partition = _partition(topic, data.index, self.context)
            if partition is None:
                continue
            try:
                guard = partition.log.producer_state.start_verification(
                    producer_id, epoch, sequence, supports_epoch_bump=adds_partitions, now_ms=now_ms
                )
            except KafkaError as error:
                self._guards[id(data)] = NotVerified(error.code)
                continue
            self._guards[id(data)] = guard
            if guard is not None:
                name = (partition.topic, partition.index)
                self._unverified.append(UnverifiedBatch(data, name, partition.log.producer_state, guard))
        if len(producers) > 1:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


async def _retry(
    verification: _Verification, pending: Awaitable[dict[TopicPartition, ErrorCode]] | None
) -> VerificationGuards:
    """Verify again while the previous transaction ends, at most for
    `add.partitions.to.txn.retry.backoff.max.ms`."""
    config = verification.context.services.config
    loop = asyncio.get_running_loop()
    limit_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
    end = loop.time() + limit_ms / 1000
    while True:
        if pending is None:
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
            errors = await resolved(verification.start())
        else:
            errors, pending = await pending, None
        if loop.time() >= end or not verification.is_too_soon(errors):
            return verification.guards(errors)


def _not_verified(error: ErrorCode, supported: SupportedOperation) -> NotVerified:
    """The error for a producer. Errors that older producers do not retry become NOT_ENOUGH_REPLICAS, which they do, as
    in Kafka."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return NotVerified(error, "Partition was not added to the transaction")
    concurrent = error is ErrorCode.CONCURRENT_TRANSACTIONS and supported < SupportedOperation.ADD_PARTITION
    if error in _COORDINATOR_UNAVAILABLE or concurrent:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return NotVerified(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    return NotVerified(error)
