"""Reading a range of offsets in a task: what brokers send becomes Arrow batches with the columns of Spark's source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING

from kwire.arrow.decoding import Batch
from kwire.arrow.errors import ReadError, RecordsGone
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Brokers, Reading
from kwire.arrow.rows import Rows
from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import EARLIEST, list_offsets
from kwire.cli.records.reading import Chosen, Reader
from kwire.codec.errors import CorruptBatch

if TYPE_CHECKING:
    import pyarrow as pa


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
        loop.run_until_complete(_end(batches))
        loop.close()


async def _end(batches: AsyncGenerator[pa.RecordBatch]) -> None:
    """Close it, and what it began: a Fetch may be under way if the reader has enough before the end."""
    await batches.aclose()
    await asyncio.get_running_loop().shutdown_asyncgens()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _batches(brokers: Brokers, how: Reading, wanted: Range) -> AsyncGenerator[pa.RecordBatch]:
    cluster = Cluster.of(brokers.bootstrap, brokers.properties, brokers.timeout_s)
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
            strict=how.fails_on_loss,
        )
        rows = Rows(*place, how)
        async for chosen in _timed(reader.chosen(), brokers.timeout_s, how, wanted):
            if chosen.data is not None:
                rows.add(Batch(chosen.data, chosen.header, chosen.first, wanted.end))
            if rows.is_enough and (made := rows.take()) is not None:
                yield made
        if (made := rows.take()) is not None:
            yield made
    except CorruptBatch as error:
        raise ReadError(f"{wanted.topic}-{wanted.partition}: {error}") from None
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
    batches: AsyncGenerator[Chosen], timeout_s: float, how: Reading, wanted: Range
) -> AsyncGenerator[Chosen]:
    """The same, but an end that does not come ends it: the partition has become shorter."""
    name = f"{wanted.topic}-{wanted.partition}"
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                chosen = await anext(batches)
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
        yield chosen
