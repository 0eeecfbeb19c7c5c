"""The state machine of one ``__transaction_state`` partition: its transactional ids (KIP-98, KIP-360, KIP-890).

Each operation takes an `Instant` and returns a `Result`. `apply` changes the state from a record, in operation and when
the log is loaded. The Prepare record decides the outcome of a transaction. Once it is committed, the coordinator takes
the id from ``unfinished``, writes the markers, and calls `complete`. After a crash at any step, loading the log puts
all such ids into ``unfinished`` again. Writing a marker twice does no harm.

Kafka keeps a "pending" transition while a record is being written. Here a record takes effect when it is appended, and
responses wait for its commit, so only prepared transactions are pending. In those states the response is the one of a
pending transition in Kafka: CONCURRENT_TRANSACTIONS, before any other check.

``level`` is the finalized `transaction.version`. The *client version* follows from the version of a request: 2 from
AddPartitionsToTxn v4, EndTxn v5, Produce v12 and TxnOffsetCommit v5 on, else 0. With 2, every EndTxn bumps the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.topic_partition import TopicPartition
from kwire.coordinator.runtime.machine import Instant, Result
from kwire.coordinator.runtime.timers import Timers
from kwire.coordinator.transactions import records
from kwire.coordinator.transactions.records import (
    EPOCH_BUMP,
    EPOCH_MAX,
    NONE,
    Transaction,
    TransactionState,
    transition,
)

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


class TransactionSettings(Protocol):
    """The configuration that the shard reads: Kafka's properties of these names."""

    transactional_id_expiration_ms: int


class Producer(NamedTuple):
    """A producer id and its epoch, -1 if there is none."""

    id: int = NONE
    epoch: int = NONE


class Outcome(NamedTuple):
    """An error, or the producer id and epoch for the next transaction."""

    error: ErrorCode
    producer: Producer = Producer()


class TransactionShard:
    """See the module. ``take_id`` returns an unused producer id or raises `NoProducerId`. ``level`` returns the
    finalized `transaction.version`."""

    def __init__(self, settings: TransactionSettings, take_id: Callable[[], int], level: Callable[[], int]) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.unfinished: dict[str, None] = {}
        self.timers = Timers()  # unused: timeouts are checked periodically, as in Kafka
        self._settings = settings
        self._take_id = take_id
        self._level = level

    # -- InitProducerId ------------------------------------------------------------------------------------------------

    def init(self, transactional_id: str, timeout_ms: int, expected: Producer | None, now: Instant) -> Result[Outcome]:
        """InitProducerId: a producer starts, or continues after an error (``expected``: its id and epoch, KIP-360).
        Fences all earlier producers with this transactional id.

        CONCURRENT_TRANSACTIONS if an earlier transaction has to be completed first. This call aborts it.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, self._take_id())
        if transaction.state.is_prepared:
            return Result(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS))
        if expected is not None and not _is_known(transaction, expected):
            return Result(Outcome(ErrorCode.PRODUCER_FENCED))
        if transaction.state is ONGOING:
            out = Result(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS))
            self._fence(transaction, out, now)
            return out
        if transaction.is_epoch_exhausted and (expected is None or expected.epoch == transaction.producer_epoch):
            last = NONE if expected is None else transaction.producer_epoch
            return self._begin(transaction, Producer(self._take_id(), 0), last, timeout_ms, now)
        epoch, last = transaction.producer_epoch + 1, NONE
        if expected is not None:
            if transaction.producer_epoch in (NONE, expected.epoch):
                last = transaction.producer_epoch
            elif expected.epoch == transaction.last_epoch:  # a retry after a lost response
                epoch, last = transaction.producer_epoch, transaction.last_epoch
            else:
                return Result(Outcome(ErrorCode.PRODUCER_FENCED))
        return self._begin(transaction, Producer(transaction.producer_id, epoch), last, timeout_ms, now)

    def _begin(
        self, transaction: Transaction, producer: Producer, last_epoch: int, timeout_ms: int, now: Instant
    ) -> Result[Outcome]:
        out = Result(Outcome(ErrorCode.NONE, producer))
        record = transition(
            transaction,
            EMPTY,
            self._level(),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            timeout_ms=timeout_ms,
            start_ms=NONE,
            update_ms=now.wall_ms,
        )
        out.records.append(record)

        def applied(result: Result[Any], now: Instant) -> None:
            self.transactions[transaction.transactional_id].last_epoch = last_epoch

        out.applied = applied
        return out

    # -- partitions ----------------------------------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
        now: Instant,
    ) -> Result[ErrorCode]:
        """AddPartitionsToTxn, AddOffsetsToTxn, and the implicit addition by a produced batch (KIP-890)."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return Result(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.state.is_prepared:
            return Result(ErrorCode.CONCURRENT_TRANSACTIONS)
        error = _check_producer(transaction, producer)
        if error is not ErrorCode.NONE:
            return Result(error)
        ongoing = transaction.state is ONGOING
        if ongoing and all(partition in transaction.partitions for partition in partitions):
            return Result(ErrorCode.NONE)
        out = Result(ErrorCode.NONE)
        out.records.append(
            transition(
                transaction,
                ONGOING,
                self._level(),
                partitions={**transaction.partitions, **dict.fromkeys(partitions)},
                start_ms=transaction.start_ms if ongoing else now.wall_ms,
                update_ms=now.wall_ms,
                client_version=client_version,
            )
        )
        return out

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Result[dict[TopicPartition, ErrorCode]]:
        """Whether partitions are part of the ongoing transaction: an error per partition. The state does not change."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return Result(dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        error = _check_producer(transaction, producer)
        if error is ErrorCode.NONE and transaction.state.is_prepared:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error is not ErrorCode.NONE:
            return Result(dict.fromkeys(partitions, error))
        known = transaction.partitions
        return Result(
            {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}
        )

    # -- EndTxn --------------------------------------------------------------------------------------------------------

    def end(
        self, transactional_id: str, producer: Producer, *, commit: bool, client_version: int, now: Instant
    ) -> Result[Outcome]:
        """EndTxn: decide a transaction. With client version 2 the response has the producer's next epoch."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return Result(Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        if client_version >= EPOCH_BUMP:
            return self._end_with_bump(transaction, producer, commit=commit, now=now)
        error = _check_producer(transaction, producer)
        if error is not ErrorCode.NONE:
            return Result(Outcome(error))
        state = transaction.state
        if state.is_prepared:
            return Result(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS))
        if state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
            return Result(Outcome(ErrorCode.NONE))
        if state is not ONGOING:
            return Result(Outcome(ErrorCode.INVALID_TXN_STATE))
        out = Result(Outcome(ErrorCode.NONE))
        self._prepare(transaction, out, now, commit=commit, client_version=0)
        return out

    def _end_with_bump(
        self, transaction: Transaction, producer: Producer, *, commit: bool, now: Instant
    ) -> Result[Outcome]:
        """EndTxn of KIP-890. The epoch distinguishes a retry of the last EndTxn from the end of the next transaction.

        Only an EndTxn that bumped the epoch can be retried. After one of an older client, the previous epoch is that of
        a fenced producer. Apache Kafka responds to it with the epoch of the producer that fenced it.
        """
        state = transaction.state
        if state.is_prepared:
            return Result(Outcome(ErrorCode.CONCURRENT_TRANSACTIONS))
        overflow = (
            transaction.previous_producer_id == producer.id
            and producer.epoch == EPOCH_MAX - 1
            and transaction.producer_epoch == 0
        )
        if transaction.producer_id != producer.id and not overflow:
            return Result(Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        bumped = producer.epoch == transaction.producer_epoch - 1 and transaction.client_version >= EPOCH_BUMP
        if state in (COMPLETE_COMMIT, COMPLETE_ABORT) and (bumped or overflow):
            if state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
                return Result(Outcome(ErrorCode.NONE, Producer(transaction.producer_id, transaction.producer_epoch)))
            return Result(Outcome(ErrorCode.INVALID_TXN_STATE))
        if producer.epoch != transaction.producer_epoch:
            return Result(Outcome(ErrorCode.PRODUCER_FENCED))
        if state is not ONGOING and commit:
            return Result(Outcome(ErrorCode.INVALID_TXN_STATE))
        next_id = self._take_id() if transaction.is_epoch_exhausted else NONE
        following = Producer(transaction.producer_id, transaction.producer_epoch + 1)
        out = Result(Outcome(ErrorCode.NONE, following if next_id == NONE else Producer(next_id, 0)))
        self._prepare(transaction, out, now, commit=commit, client_version=EPOCH_BUMP, next_id=next_id)
        return out

    def _prepare(
        self,
        transaction: Transaction,
        out: Result[Any],
        now: Instant,
        *,
        commit: bool,
        client_version: int,
        next_id: int = NONE,
        fence: bool = False,
    ) -> None:
        """Add the Prepare record. ``fence``: bump the epoch to fence the producer, as client versions below 2
        require."""
        epoch = transaction.producer_epoch
        if client_version >= EPOCH_BUMP or fence:
            epoch = min(epoch + 1, EPOCH_MAX)
        record = transition(
            transaction,
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            self._level(),
            producer_epoch=epoch,
            next_producer_id=next_id,
            start_ms=transaction.start_ms if transaction.state is ONGOING else now.wall_ms,
            update_ms=now.wall_ms,
            client_version=client_version,
        )
        out.records.append(record)

    def _fence(self, transaction: Transaction, out: Result[Any], now: Instant) -> None:
        """Abort the ongoing transaction and fence its producer."""
        version = EPOCH_BUMP if self._level() >= EPOCH_BUMP else 0
        exhausted = version >= EPOCH_BUMP and transaction.is_epoch_exhausted
        next_id = self._take_id() if exhausted else NONE
        self._prepare(transaction, out, now, commit=False, client_version=version, next_id=next_id, fence=True)

    def complete(self, transactional_id: str, producer: Producer, now: Instant) -> Result[bool]:
        """All markers of a prepared transaction are committed: add the Complete record. The response is False if the
        transaction is no longer prepared."""
        transaction = self.transactions.get(transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or producer != (transaction.producer_id, transaction.producer_epoch)
        ):
            return Result(False)
        out = Result(True)
        state = COMPLETE_COMMIT if transaction.state is PREPARE_COMMIT else COMPLETE_ABORT
        following = {}
        if transaction.client_version >= EPOCH_BUMP and transaction.next_producer_id != NONE:
            following = {"producer_id": transaction.next_producer_id, "producer_epoch": 0}
        record = transition(
            transaction,
            state,
            self._level(),
            partitions={},
            next_producer_id=NONE,
            update_ms=now.wall_ms,
            **following,
        )
        out.records.append(record)
        return out

    # -- timeouts ------------------------------------------------------------------------------------------------------

    def abort_timed_out(self, now: Instant, limit: int | None = None) -> Result[None]:
        """Abort transactions that have exceeded `transaction.timeout.ms`, at most ``limit`` of them, and fence their
        producers."""
        out: Result[None] = Result()
        due = (
            transaction
            for transaction in self.transactions.values()
            if transaction.state is ONGOING and transaction.start_ms + transaction.timeout_ms < now.wall_ms
        )
        for transaction in islice(due, limit):
            self._fence(transaction, out, now)
        return out

    def expire(self, now: Instant, limit: int | None = None) -> Result[None]:
        """Delete ids that were idle for `transactional.id.expiration.ms`, at most ``limit`` of them."""
        out: Result[None] = Result()
        latest = now.wall_ms - self._settings.transactional_id_expiration_ms
        idle = (
            transaction
            for transaction in self.transactions.values()
            if transaction.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT) and transaction.update_ms <= latest
        )
        out.records += (records.tombstone(each.transactional_id) for each in islice(idle, limit))
        return out

    # -- records -------------------------------------------------------------------------------------------------------

    def apply(
        self,
        key: bytes | memoryview,
        value: bytes | memoryview | None,
        offset: int,
        *,
        wall_ms: int = 0,
        producer_id: int = NONE,
    ) -> None:
        """Apply a record. Raises CodecError. Records of unknown types are ignored."""
        transactional_id = records.parse_key(key)
        if transactional_id is None:
            return
        self.unfinished.pop(transactional_id, None)
        if value is None:
            self.transactions.pop(transactional_id, None)
            return
        parsed = records.parse_value(value)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, parsed.producer_id)
        transaction.take(parsed)
        self.transactions[transactional_id] = transaction
        if transaction.state.is_prepared:
            self.unfinished[transactional_id] = None

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: this log has no transaction markers."""

    def take_unfinished(self) -> list[Transaction]:
        """The transactions whose markers have to be written now. Each is returned once."""
        if not self.unfinished:
            return []
        found, self.unfinished = [self.transactions[each] for each in self.unfinished], {}
        return found

    # -- leadership ----------------------------------------------------------------------------------------------------

    def loaded(self, now: Instant) -> Result[None]:
        """The log is loaded. The prepared transactions are in ``unfinished``."""
        return Result()

    def unload(self) -> Result[None]:
        """This broker no longer leads the partition."""
        self.unfinished.clear()
        return Result()

    # -- describe and list ---------------------------------------------------------------------------------------------

    def find(self, transactional_id: str) -> Transaction | None:
        """The state of an id, or None."""
        return self.transactions.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self.transactions.values())


def _is_known(transaction: Transaction, expected: Producer) -> bool:
    """Whether the transactional id may belong to a producer that continues. The epoch is checked when it is bumped."""
    return (
        transaction.producer_epoch == NONE
        or expected.id == transaction.producer_id
        or (expected.id == transaction.previous_producer_id and records.is_exhausted(expected.epoch))
    )


def _check_producer(transaction: Transaction, producer: Producer) -> ErrorCode:
    if transaction.producer_id != producer.id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


class NoProducerId(KafkaError):
    """The block of producer ids is used up: get a new block and try again."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
