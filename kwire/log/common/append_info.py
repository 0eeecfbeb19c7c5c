"""What goes into and comes out of a log: plain values that appends, reads and look-ups exchange with their callers."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange


class Origin(IntEnum):
    """Who appends. Only a client's batches are distrusted: sequences checked, control batches refused."""

    CLIENT = 0
    COORDINATOR = 1  # a group or transaction coordinator writing its own log, or a transaction marker
    REPLICATION = 2  # a follower copying what its leader has checked


class AppendInfo:
    """The outcome of one append.

    ``duplicate`` means that the batch was there already: the offsets are those of the first time and nothing was
    written. ``first_offset`` is -1 when nothing was to be appended. ``flushed`` is None, or a future that ends when the
    batch is on stable storage, where `flush.messages` asks for that before the producer is answered.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "flushed",
        "last_offset",
        "leader_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp_ms",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_start_offset: int,
        leader_epoch: int,
        size: int,
        *,
        log_append_time_ms: int = -1,
        max_timestamp_ms: int = -1,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.leader_epoch = leader_epoch
        self.size = size
        self.log_append_time_ms = log_append_time_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.duplicate = duplicate
        self.flushed: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"AppendInfo({self.first_offset}..{self.last_offset}, size={self.size}, duplicate={self.duplicate})"


class FetchedData:
    """What a read found: ``size`` bytes of whole batches, the last of which may be cut off as in Kafka.

    ``records`` is empty bytes when there is nothing to send. A FileRange must be sent or released by the receiver.
    """

    __slots__ = ("records", "size")

    def __init__(self, records: FileRange | bytes, size: int) -> None:
        self.records = records
        self.size = size


NO_DATA = FetchedData(b"", 0)


class TimestampAndOffset(NamedTuple):
    """An answer to ListOffsets. ``timestamp`` and ``leader_epoch`` are -1 where Kafka answers without them."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """One entry of a transaction index: offsets of an aborted transaction, its last offset being the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class RecordError(NamedTuple):
    """Why one record of a batch was refused (Produce version 8 and later report it)."""

    batch_index: int
    message: str | None


class NotOneBatch(KafkaError):
    """What a producer sent for a partition is not exactly one batch: a fault of the request, not of the records.
    It has words only where Kafka tells them (what cannot be a batch at all)."""


class RecordsRefused(KafkaError):
    """A batch refused because of single records: ``record_errors`` names them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
