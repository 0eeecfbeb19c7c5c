"""The values that appends, reads and look-ups of a log exchange with their callers."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Any, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange


class Origin(IntEnum):
    """Who appends. Only for a client are sequence numbers checked and control batches refused."""

    CLIENT = 0
    COORDINATOR = 1  # a group or transaction coordinator writing its own log, or a transaction marker
    REPLICATION = 2  # a follower appending what its leader has checked


class AppendInfo:
    """The outcome of one append.

    ``duplicate``: the batch had been appended before; the offsets are the earlier ones, and nothing was written.
    ``first_offset`` is -1 if there was nothing to append. ``flushed`` is a future that completes when the batch is on
    stable storage, if `flush.messages` requires that before the producer gets its response; otherwise None.
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
        log_append_time_ms: int = -1,
        max_timestamp_ms: int = -1,
        *,
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

    @classmethod
    def of_duplicate(
        cls, first: int, last: int, log_start_offset: int, leader_epoch: int, timestamp: int
    ) -> AppendInfo:
        """The outcome for a batch that had been appended before at these offsets, with this timestamp."""
        return cls(first, last, log_start_offset, leader_epoch, 0, timestamp, timestamp, duplicate=True)

    def __repr__(self) -> str:
        return f"AppendInfo({self.first_offset}..{self.last_offset}, size={self.size}, duplicate={self.duplicate})"


class FetchedData:
    """The result of a read: ``size`` bytes of batches, the last of which may be incomplete, as in Kafka.

    ``records`` is empty bytes if there is nothing to send. The receiver must send or release a FileRange.
    """

    __slots__ = ("records", "size")

    def __init__(self, records: FileRange | bytes, size: int) -> None:
        self.records = records
        self.size = size


NO_DATA = FetchedData(b"", 0)


class TimestampAndOffset(NamedTuple):
    """A result of ListOffsets. ``timestamp`` and ``leader_epoch`` are -1 where Kafka's response leaves them out."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """One entry of a transaction index: the offsets of an aborted transaction; the last one is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class RecordError(NamedTuple):
    """Why one record of a batch was refused (Produce version 8 and later report it)."""

    batch_index: int
    message: str | None


class NotOneBatch(KafkaError):
    """A producer sent something other than exactly one batch for a partition: the request is invalid, not the records.

    It has a message only where Kafka's response has one (for bytes that cannot be a batch)."""


class RecordsRefused(KafkaError):
    """A batch was refused because of single records, which ``record_errors`` names."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.record_errors)  # a helper process may find it
