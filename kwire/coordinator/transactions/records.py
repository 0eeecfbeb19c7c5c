"""The records of ``__transaction_state``, in the versions that Kafka 4.3 writes, and the state that they describe.

A key is a 16-bit 0 and the transactional id, a value a 16-bit version and `TransactionLogValue`: the whole state of the
id, so that the last record alone says everything. Version 1 (flexible) is written once `transaction.version` is at
least 1, as in Kafka. How the state moves is `transaction_shard`'s business.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final

from kwire.codec.errors import CodecError
from kwire.codec.messages.transaction_log_key import TransactionLogKey
from kwire.codec.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from kwire.codec.protocol import decode, encode
from kwire.coordinator.runtime.machine import CoordinatorRecord

NONE: Final = -1
EPOCH_MAX: Final = 0x7FFF
EPOCH_BUMP: Final = 2
"""The version of transactions from which on every end bumps the producer's epoch."""
Partition = tuple[str, int]
"""Topic and partition index."""

_PREFIX = struct.Struct(">h")
_KEY_PREFIX = _PREFIX.pack(0)


class TransactionState(IntEnum):
    """The states of a transactional id, with the numbers that the log has for them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """As DescribeTransactions shows it."""
        return _TEXTS[self]

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_TEXTS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_TEXT: Final = {text: state for state, text in _TEXTS.items()}


class Transaction:
    """A transactional id: its producer, and the transaction that is (or was last) under way. Times are wall clock
    milliseconds. ``last_epoch`` is soft: the epoch before the last bump that its producer asked for, which tells a
    retried InitProducerId from a fenced one; a new leader begins without it, as in Kafka."""

    __slots__ = (
        "client_version",
        "last_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "update_ms",
    )

    def __init__(self, transactional_id: str, producer_id: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.previous_producer_id = NONE
        self.next_producer_id = NONE
        self.producer_epoch = NONE
        self.last_epoch = NONE
        self.timeout_ms = 0
        self.state = TransactionState.EMPTY
        self.partitions: dict[Partition, None] = {}
        self.start_ms = NONE
        self.update_ms = NONE
        self.client_version = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs a new id. One epoch is left for fencing the last one."""
        return is_exhausted(self.producer_epoch)

    def take(self, value: TransactionLogValue) -> None:
        """Become what a record says. CodecError for a state that there is not."""
        try:
            self.state = TransactionState(value.transaction_status)
        except ValueError:
            raise CodecError(f"a transaction's state is {value.transaction_status}") from None
        if self.state is TransactionState.EMPTY:
            self.last_epoch = NONE
        elif self.state.is_prepared and value.producer_epoch != self.producer_epoch:
            self.last_epoch = self.producer_epoch if value.client_transaction_version >= EPOCH_BUMP else NONE
        known = value.previous_producer_id != NONE  # version 0 does not tell it
        self.previous_producer_id = value.previous_producer_id if known else self.producer_id
        self.producer_id = value.producer_id
        self.next_producer_id = value.next_producer_id
        self.producer_epoch = value.producer_epoch
        self.timeout_ms = value.transaction_timeout_ms
        self.partitions = {
            (topic.topic, index): None for topic in value.transaction_partitions or () for index in topic.partition_ids
        }
        self.start_ms = value.transaction_start_timestamp_ms
        self.update_ms = value.transaction_last_update_timestamp_ms
        self.client_version = value.client_transaction_version


def is_exhausted(epoch: int) -> bool:
    """Whether no producer can get an epoch after this one."""
    return epoch >= EPOCH_MAX - 1


def transition(transaction: Transaction, state: TransactionState, level: int, **changes: Any) -> CoordinatorRecord:
    """The record by which a transaction becomes another: what ``changes`` does not name stays as it is.

    ``level`` is the finalised `transaction.version`. Names are those of `Transaction`'s attributes.
    """
    partitions = changes.get("partitions", transaction.partitions)
    value = TransactionLogValue(
        producer_id=changes.get("producer_id", transaction.producer_id),
        producer_epoch=changes.get("producer_epoch", transaction.producer_epoch),
        transaction_timeout_ms=changes.get("timeout_ms", transaction.timeout_ms),
        transaction_status=state,
        transaction_partitions=None if state is TransactionState.EMPTY else _by_topic(partitions),
        transaction_last_update_timestamp_ms=changes.get("update_ms", transaction.update_ms),
        transaction_start_timestamp_ms=changes.get("start_ms", transaction.start_ms),
    )
    version = 1 if level >= 1 else 0
    if version >= 1:
        value.previous_producer_id = transaction.producer_id
        value.next_producer_id = changes.get("next_producer_id", transaction.next_producer_id)
        value.client_transaction_version = changes.get("client_version", transaction.client_version)
    return CoordinatorRecord(record_key(transaction.transactional_id), _PREFIX.pack(version) + encode(value, version))


def _by_topic(partitions: dict[Partition, None]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Forget a transactional id."""
    return CoordinatorRecord(record_key(transactional_id), None)


def record_key(transactional_id: str) -> bytes:
    return _KEY_PREFIX + encode(TransactionLogKey(transactional_id=transactional_id), 0)


def parse_key(key: bytes | memoryview) -> str | None:
    """The transactional id; None for a record type that is not known. CodecError for bytes that are no key."""
    if len(key) < 2:
        raise CodecError(f"a transaction record's key of {len(key)} bytes has no version")
    if key[:2] != _KEY_PREFIX:
        return None
    parsed: str = decode(TransactionLogKey, 0, key, 2)[0].transactional_id
    return parsed


def parse_value(value: bytes | memoryview) -> TransactionLogValue:
    """A value in whatever version it was written. Raises CodecError."""
    if len(value) < 2:
        raise CodecError(f"a transaction record's value of {len(value)} bytes has no version")
    version: int = _PREFIX.unpack_from(value)[0]
    low, high = TransactionLogValue.VALID_VERSIONS
    if not low <= version <= high:
        raise CodecError(f"TransactionLogValue: version {version} is not one of {low} to {high}")
    return decode(TransactionLogValue, version, value, 2)[0]
