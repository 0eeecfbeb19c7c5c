"""Reading a range of offsets in a task: what brokers send becomes Arrow batches with the columns of Spark's source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Final

from kwire.arrow.errors import ReadError, RecordsGone
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Brokers, Reading
from kwire.arrow.rows import to_arrow
from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import EARLIEST, list_offsets
from kwire.cli.records.columns import Columns, decode_batch
from kwire.cli.records.reading import Reader
from kwire.codec.records import BatchHeader, Buffer

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 8 * 1024 * 1024
"""An Arrow batch is made when so much has come."""


def read(brokers: Brokers, how: Reading, wanted: Range) -> Iterator[pa.RecordBatch]:
    """The records of a range. Memory holds two responses of a broker and one Arrow batch. `ReadError`."""
    loop = asyncio.new_event_loop()
    batches = _batches(brokers, how, wanted)
    try:
        while True:
            try:
                yield loop.run_until_complete(anext(batches))
            except StopAsyncIteration:
                return
            except CommandError as error:
                raise ReadError(str(error)) from None
    finally:
        loop.run_until_complete(batches.aclose())
        loop.close()


async def _batches(brokers: Brokers, how: Reading, wanted: Range) -> AsyncGenerator[pa.RecordBatch]:
    cluster = Cluster.of(brokers.bootstrap, brokers.properties, brokers.timeout_s)
    types: dict[int, int] = {}  # next offset of a batch -> its type of timestamps

    def decode(topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
        types[header.next_offset] = header.timestamp_type
        return decode_batch(topic, partition, batch, header)

    try:
        await cluster.connect()
        place = (wanted.topic, wanted.partition)
        start = await _start(cluster, how, wanted)
        reader = Reader(
            cluster,
            {place: start},
            {place: wanted.end},
            committed=how.committed,
            timeout_s=brokers.timeout_s,
            decode=decode,
            strict=how.fails_on_loss,
        )
        waiting: list[Columns] = []
        rows = size = 0
        async for columns in _timed(reader.batches(), brokers.timeout_s, how, wanted):
            if not columns.values:
                continue
            waiting.append(columns)
            rows += len(columns)
            size += sum(len(each) for each in columns.values if each is not None)
            if rows >= _ROWS_MAX or size >= _BYTES_MAX:
                yield to_arrow(waiting, types, headers=how.headers)
                waiting, rows, size = [], 0, 0
                types.clear()
        if waiting:
            yield to_arrow(waiting, types, headers=how.headers)
    finally:
        cluster.close()


async def _start(cluster: Cluster, how: Reading, wanted: Range) -> int:
    """Where to begin: later than the range if its first records are gone and that is no error."""
    place = (wanted.topic, wanted.partition)
    cluster.extend()
    try:
        earliest = (await list_offsets(cluster, {place: EARLIEST}))[place].offset
    except CommandError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and "has no partition" not in str(error):
            raise
        if how.fails_on_loss:
            raise RecordsGone(f"{wanted.topic}-{wanted.partition} does not exist any more") from None
        return wanted.end
    if earliest > wanted.start and how.fails_on_loss:
        raise RecordsGone(
            f"{wanted.topic}-{wanted.partition} begins at offset {earliest}, and {wanted.start} was to be read"
        )
    return min(max(earliest, wanted.start), wanted.end)


async def _timed(
    batches: AsyncGenerator[Columns], timeout_s: float, how: Reading, wanted: Range
) -> AsyncGenerator[Columns]:
    """The same, but an end that does not come ends it: the partition has become shorter."""
    name = f"{wanted.topic}-{wanted.partition}"
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                columns = await anext(batches)
        except StopAsyncIteration:
            return
        except TimeoutError:
            gone = f"{name} has nothing before offset {wanted.end} for {timeout_s:g} s"
            if how.fails_on_loss:
                raise RecordsGone(gone) from None
            return
        except CommandError as error:
            is_gone = error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if is_gone or "beyond the end" in str(error):
                if how.fails_on_loss:
                    raise RecordsGone(str(error)) from None
                return
            raise
        yield columns
