"""The records of ``__transaction_state``, in the versions that Kafka 4.3 writes, and the state that they describe.

A key is a 16-bit 0 and the transactional id. A value is a 16-bit version and `TransactionLogValue`, the whole state of
the id, so that only the last record counts. Version 1 (flexible) is written if `transaction.version` is at least 1, as
in Kafka. `transactions.shard` has the state transitions.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final

from kwire.base.topic_partition import TopicPartition
from kwire.codec.errors import CodecError
from kwire.codec.messages.transaction_log_key import TransactionLogKey
from kwire.codec.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from kwire.codec.protocol import decode, encode
from kwire.coordinator.runtime.machine import CoordinatorRecord

NONE: Final = -1
"""No producer id, no epoch, no timestamp."""
EPOCH_MAX: Final = 0x7FFF
EPOCH_BUMP: Final = 2
"""The version of transactions from which on every EndTxn bumps the producer epoch (KIP-890)."""

_PREFIX = struct.Struct(">h")
_KEY_PREFIX = _PREFIX.pack(0)


class TransactionState(IntEnum):
    """The states of a transactional id. The numbers are those of the log."""

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
        """The state's name in DescribeTransactions."""
        return _TEXTS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and the transaction markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_TEXTS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_TEXT: Final = {text: state for state, text in _TEXTS.items()}


class Transaction:
    """A transactional id: its producer, and its present or last transaction. Times are wall clock milliseconds.

    ``last_epoch`` is the epoch before the last bump that the producer requested. It distinguishes a retried
    InitProducerId from one of a fenced producer. It is soft state: a new leader starts without it, as in Kafka.
    """

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
        self.partitions: dict[TopicPartition, None] = {}
        self.start_ms = NONE
        self.update_ms = NONE
        self.client_version = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs a new id. One epoch is reserved for fencing the last producer."""
        return is_exhausted(self.producer_epoch)

    def take(self, value: TransactionLogValue) -> None:
        """Take over the contents of a record. Raises CodecError for an unknown state."""
        try:
            self.state = TransactionState(value.transaction_status)
        except ValueError:
            raise CodecError(f"a transaction's state is {value.transaction_status}") from None
        if self.state is TransactionState.EMPTY:
            self.last_epoch = NONE
        elif self.state.is_prepared and value.producer_epoch != self.producer_epoch:
            self.last_epoch = self.producer_epoch if value.client_transaction_version >= EPOCH_BUMP else NONE
        known = value.previous_producer_id != NONE  # version 0 lacks it
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
    """The record of a state transition. ``changes`` are new values of `Transaction`'s attributes; the others stay the
    same.

    ``level`` is the finalized `transaction.version`.
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


def _by_topic(partitions: dict[TopicPartition, None]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes a transactional id."""
    return CoordinatorRecord(record_key(transactional_id), None)


def record_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records."""
    return _KEY_PREFIX + encode(TransactionLogKey(transactional_id=transactional_id), 0)


def parse_key(key: bytes | memoryview) -> str | None:
    """The transactional id of a key, or None for an unknown record type. Raises CodecError for invalid bytes."""
    if len(key) < 2:
        raise CodecError(f"a transaction record's key of {len(key)} bytes has no version")
    if key[:2] != _KEY_PREFIX:
        return None
    parsed: str = decode(TransactionLogKey, 0, key, 2)[0].transactional_id
    return parsed


def parse_value(value: bytes | memoryview) -> TransactionLogValue:
    """The message of a value, in the version in which it was written. Raises CodecError."""
    if len(value) < 2:
        raise CodecError(f"a transaction record's value of {len(value)} bytes has no version")
    version: int = _PREFIX.unpack_from(value)[0]
    low, high = TransactionLogValue.VALID_VERSIONS
    if not low <= version <= high:
        raise CodecError(f"TransactionLogValue: version {version} is not one of {low} to {high}")
    return decode(TransactionLogValue, version, value, 2)[0]
