"""The transactional part of Produce: before a producer's records are written, its transaction must have the partition.

Behaviour: batches of a partition whose log has the producer's transaction open go on at once. For all others the
coordinator is asked whether the partition was added, or, from version 12 on, told to add it (KIP-890), and asked again
for a moment while the producer's last transaction ends. What keeps a late answer from opening a transaction that is
over by then: `kwire.log.state.producer_state.Verification`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.coordinator.transactions.records import Partition as Name
from kwire.coordinator.transactions.shard import Producer
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import find_partition
from kwire.handlers.transactions.transaction_calls import ABORTABLE_SINCE, IMPLICIT_SINCE, join_transaction

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.log.state.producer_state import ProducerStateManager, Verification

_ATTRIBUTES: Final = 22
_TRANSACTIONAL: Final = 16
_MAGIC: Final = 16
_PRODUCER: Final = Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_AT: Final = 43

_COORDINATOR_AWAY: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Permits = dict[int, "Verification | NotVerified | None"]
"""What each partition's data (by `id`) is to be appended with, or why not."""


class NotVerified(KafkaError):
    """The coordinator did not agree. It has words where Kafka tells them."""


class Question(NamedTuple):
    """One batch whose partition has to be asked about."""

    data: PartitionProduceData
    name: Name
    producers: ProducerStateManager
    verification: Verification


def is_transactional(data: PartitionProduceData) -> bool:
    """Whether a partition's data begins with a transactional batch. What is no batch has no attributes, and is told so
    by the log."""
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


def permits(request: ProduceRequest, transactional_id: str, context: RequestContext) -> Permits | Awaitable[Permits]:
    """With what, and whether, each partition's data may be appended. INVALID_PRODUCER_ID_MAPPING: batches of more than
    one producer."""
    version = context.api_version
    knows = IMPLICIT_SINCE if version >= 12 else ABORTABLE_SINCE if version >= 11 else 0
    if knows < IMPLICIT_SINCE and not context.services.config.transaction_partition_verification_enable:
        return {}
    asking = _Asking(request, transactional_id, context, knows)
    errors = asking.ask()
    if inspect.isawaitable(errors):
        return _ask_again(asking, errors)
    return _ask_again(asking, None) if asking.is_too_soon(errors) else asking.take(errors)


def _transactional_data(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if is_transactional(data):
                yield topic, data


def _partition(topic: TopicProduceData, index: int, context: RequestContext) -> Partition | None:
    """None where the append will fail anyway."""
    try:
        partition = find_partition(context, topic.name, topic.topic_id, index, by_id=context.api_version >= 13)
        partition.require_leader()
    except KafkaError:
        return None
    return partition


class _Asking:
    """What of one request the coordinator has to be asked about, and what is known so far."""

    __slots__ = ("_found", "_knows", "_producer", "_questions", "_request", "_transactional_id", "context")

    def __init__(self, request: ProduceRequest, transactional_id: str, context: RequestContext, knows: int) -> None:
        self._request = request
        self._transactional_id = transactional_id
        self.context = context
        self._knows = knows
        self._producer = Producer(-1, -1)
        self._questions: list[Question] = []
        self._found: Permits = {}

    def ask(self) -> dict[Name, ErrorCode] | Awaitable[dict[Name, ErrorCode]]:
        """Begin to verify, or begin anew: the marker of the transaction before, which all of this may wait for, ends
        what was begun before it came."""
        self._look()
        if not self._questions:
            return {}
        names = [question.name for question in self._questions]
        return join_transaction(self.context.services, self._transactional_id, self._producer, names, self._knows)

    def is_too_soon(self, errors: dict[Name, ErrorCode]) -> bool:
        """Whether the transaction before is not quite over, or was not when this was begun."""
        return any(self._error(question, errors) is ErrorCode.CONCURRENT_TRANSACTIONS for question in self._questions)

    def take(self, errors: dict[Name, ErrorCode]) -> Permits:
        """What was found, with the coordinator's answers."""
        for question in self._questions:
            error = self._error(question, errors)
            if error is not ErrorCode.NONE:
                self._found[id(question.data)] = _refusal(error, self._knows)
        return self._found

    def _error(self, question: Question, errors: dict[Name, ErrorCode]) -> ErrorCode:
        """The coordinator's answer, or that the marker of the transaction before has come while it was asked. (Who adds
        partitions before writing has waited for that marker: there it is the end of this transaction, and the log
        refuses the write.)"""
        error = errors[question.name]
        overtaken = not question.producers.still_verified(*self._producer, question.verification)
        if error is ErrorCode.NONE and self._knows >= IMPLICIT_SINCE and overtaken:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return error

    def _look(self) -> None:
        """Which partitions have the transaction open, and which are to be asked about."""
        self._found, self._questions = {}, []
        producers: dict[Producer, None] = {}
        now_ms = self.context.services.doors.clock.time_ms()
        for topic, data in _transactional_data(self._request):
            producer_id, epoch, sequence = _PRODUCER.unpack_from(cast("memoryview", data.records), _PRODUCER_AT)
            self._producer = Producer(producer_id, epoch)
            producers[self._producer] = None
            partition = _partition(topic, data.index, self.context)
            if partition is None:
                continue
            try:
                verification = partition.log.producer_state.start_verification(
                    producer_id, epoch, sequence, supports_epoch_bump=self._knows >= IMPLICIT_SINCE, now_ms=now_ms
                )
            except KafkaError as error:
                self._found[id(data)] = NotVerified(error.code)
                continue
            self._found[id(data)] = verification
            if verification is not None:
                name = (partition.topic, partition.index)
                self._questions.append(Question(data, name, partition.log.producer_state, verification))
        if len(producers) > 1:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


async def _ask_again(asking: _Asking, pending: Awaitable[dict[Name, ErrorCode]] | None) -> Permits:
    """Until it is not too soon any more: a matter of moments."""
    config = asking.context.services.config
    loop = asyncio.get_running_loop()
    patience_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
    end = loop.time() + patience_ms / 1000
    while True:
        if pending is None:
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
            answer = asking.ask()
            errors = await answer if inspect.isawaitable(answer) else answer
        else:
            errors, pending = await pending, None
        if loop.time() >= end or not asking.is_too_soon(errors):
            return asking.take(errors)


def _refusal(error: ErrorCode, knows: int) -> NotVerified:
    """As producers are told: those that would not try again are told what they do try again."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return NotVerified(error, "Partition was not added to the transaction")
    if error in _COORDINATOR_AWAY or (error is ErrorCode.CONCURRENT_TRANSACTIONS and knows < IMPLICIT_SINCE):
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return NotVerified(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    return NotVerified(error)
