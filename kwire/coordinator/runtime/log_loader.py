"""Reads a coordinator's log from start to end without blocking the event loop.

The log is read in chunks: large chunks on a thread, and other tasks run between two chunks. The records are handed to a
`Replay`, which applies them.
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
"""Smaller chunks are read on the event loop: handing them to a thread would take longer."""
BATCHES_PER_TURN: Final = 64
BATCH_BYTES_MAX: Final = 256 << 20
"""The limit on the decompressed size of a batch. No coordinator writes larger ones."""


class Replay(Protocol):
    """Receives the records of a log in order."""

    def replay(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int) -> None:
        """Apply one record. ``producer_id`` is -1 outside transactions."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker."""


async def load(partition: Partition, doors: Doors, into: Replay, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Replay everything that the log holds now, and return the number of batches. Raises KafkaError if the log cannot
    be read, CodecError for an invalid batch."""
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
    """Replay one batch: its records, or the transaction marker that it holds."""
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
    """Read a chunk. Batches found on disk at start-up are verified first, in steps between which other tasks run."""
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
    """The complete batches of a chunk with their positions. The last batch may be incomplete; it is left out."""
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = parse_header(data, position)
        if position + header.size > len(data):
            return
        yield position, header
        position += header.size
