"""Reading a coordinator's log from its start to its end, without holding up the loop.

A chunk at a time: large ones are read on a thread, and the loop runs between them. What the records mean is the
machine's business (`Replay`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kwire.base.doors import Doors
from kwire.base.file_range import FileRange
from kwire.codec.errors import CodecError
from kwire.codec.records import (
    HEADER_SIZE,
    BatchHeader,
    iter_records,
    parse_end_transaction_marker,
    parse_header,
)

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.log.common.append_info import FetchedData
    from kwire.log.partition.partition_log import PartitionLog

CHUNK_BYTES: Final = 1 << 20
INLINE_BYTES: Final = 1 << 16
"""Less than this is read on the loop: handing it to a thread would take longer."""
BATCHES_PER_TURN: Final = 64
BATCH_BYTES_MAX: Final = 256 << 20
"""No batch of a coordinator unpacks to more."""


class Replay(Protocol):
    """Who takes the records in."""

    def replay(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int) -> None:
        """One record; ``producer_id`` is -1 outside transactions."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker."""


async def load(partition: Partition, doors: Doors, into: Replay, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Replay everything that the log holds now; returns the number of batches. Raises KafkaError (storage),
    CodecError (a batch that is none)."""
    log = partition.log
    offset, count = log.log_start_offset, 0
    while offset < log.log_end_offset:
        data = await _read(partition, offset, doors, chunk_bytes)
        before = offset
        for position, header in _whole_batches(data):
            offset = max(offset, header.next_offset)
            replay_batch(memoryview(data)[position : position + header.size], header, into)
            count += 1
            if count % BATCHES_PER_TURN == 0:
                await asyncio.sleep(0)
        if offset == before:
            raise CodecError(f"{log.topic}-{log.partition}: no batch at offset {offset}")
    return count


def replay_batch(batch: memoryview, header: BatchHeader, into: Replay) -> None:
    """Replay one batch: its records, or what its marker says of a transaction."""
    if header.is_control:
        for record in iter_records(batch, max_bytes=BATCH_BYTES_MAX):
            marker = parse_end_transaction_marker(record)
            if marker is not None:
                into.end_transaction(header.producer_id, committed=marker.commit)
        return
    producer_id = header.producer_id if header.is_transactional else -1
    for record in iter_records(batch, max_bytes=BATCH_BYTES_MAX):
        into.replay(record.key, record.value, record.offset, producer_id)


async def _read(partition: Partition, offset: int, doors: Doors, chunk_bytes: int) -> bytes:
    records = (await _when_verified(partition.log, offset, chunk_bytes)).records
    if not isinstance(records, FileRange):
        return bytes(records)
    try:
        if records.size <= INLINE_BYTES:
            return doors.files.pread(records.fd, records.size, records.position)
        return await doors.executor.run(doors.files.pread, records.fd, records.size, records.position)
    finally:
        records.release()


async def _when_verified(log: PartitionLog, offset: int, chunk_bytes: int) -> FetchedData:
    """Read; what a start found on disk is verified before, in pieces between which the loop runs."""
    for _ in log.segments:
        verified: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        data = log.read(offset, chunk_bytes, upto=log.log_end_offset, on_verified=partial(_set, verified))
        if data.size or not any(segment.unverified for segment in log.segments):
            return data
        if not log.verifier.is_busy:
            break
        await verified
    return log.read(offset, chunk_bytes, upto=log.log_end_offset)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _whole_batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a chunk, whose last one may be cut off."""
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = parse_header(data, position)
        if position + header.size > len(data):
            return
        yield position, header
        position += header.size
