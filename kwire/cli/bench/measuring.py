"""What ``kwire bench`` measures, with the parts of ``kwire produce`` and ``kwire consume``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from struct import Struct
from typing import Final, NamedTuple

from kwire.cli import output
from kwire.cli.bench.histogram import Histogram, Summary
from kwire.cli.connection import open_cluster
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import EARLIEST, LATEST, Partition, list_offsets
from kwire.cli.groups.commits import existing_partitions
from kwire.cli.records.columns import Columns
from kwire.cli.records.reading import Reader
from kwire.cli.records.writing.encoding import RECORDS_MAX, Rows
from kwire.cli.records.writing.gathering import BATCH_BYTES_MAX
from kwire.cli.records.writing.sending import Sender, Settings

_MEGABYTE: Final = 1024 * 1024
_OVERHEAD_BYTES: Final = 20
_BATCHES_PER_SECOND: Final = 20
"""With a rate, how many batches a second."""
_PROGRESS_S: Final = 1.0
_STAMP: Final = Struct(">16sq")
"""In a record of ``latency``: this run, and the number of the record."""


class Throughput(NamedTuple):
    """``latency_ms``: from the batch's first byte to its acknowledgement; None where nothing is sent."""

    topic: str
    records: int
    bytes: int
    seconds: float
    records_per_second: float
    megabytes_per_second: float
    latency_ms: Summary | None


class EndToEnd(NamedTuple):
    """``latency_ms``: from sending a record to having it read again."""

    topic: str
    records: int
    latency_ms: Summary


class _Progress:
    """A line on a terminal that says how far it is, about every second."""

    def __init__(self) -> None:
        self._now_s = asyncio.get_running_loop().time
        self._started_s = self._shown_s = self._now_s()
        self._is_shown = sys.stderr.isatty()
        self.records = 0
        self.bytes = 0

    def add(self, records: int, size: int) -> None:
        """Count records and the bytes of their keys and values."""
        self.records += records
        self.bytes += size
        now_s = self._now_s()
        if self._is_shown and now_s - self._shown_s > _PROGRESS_S:
            self._shown_s = now_s
            seconds = now_s - self._started_s
            rate, megabytes = self.records / seconds, self.bytes / _MEGABYTE / seconds
            line = f"{seconds:.0f} s  {self.records} records  {rate:.0f} records/s  {megabytes:.1f} MB/s"
            print(f"\r{line:<78}", end="", file=sys.stderr, flush=True)

    def end(self, topic: str, latency: Summary | None) -> Throughput:
        """The result. The line is cleared."""
        if self._is_shown:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)
        seconds = max(self._now_s() - self._started_s, 1e-9)
        rates = round(self.records / seconds, 1), round(self.bytes / _MEGABYTE / seconds, 3)
        return Throughput(topic, self.records, self.bytes, round(seconds, 3), *rates, latency)


async def bench_produce(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Write records: a batch to each partition at a time. `CommandError`."""
    partitions = [index for _, index in await _partitions(cluster, arguments.topic)]
    sender = await _sender(cluster, arguments)
    value = os.urandom(arguments.record_size)
    size = min(max(BATCH_BYTES_MAX // (len(value) + _OVERHEAD_BYTES), 1), RECORDS_MAX)
    if arguments.rate is not None:
        size = max(min(size, arguments.rate // _BATCHES_PER_SECOND), 1)
    loop = asyncio.get_running_loop()
    progress, latency, started_s = _Progress(), Histogram(), loop.time()
    while (left := arguments.num_records - progress.records) > 0:
        if arguments.rate is not None:
            await asyncio.sleep(started_s + progress.records / arguments.rate - loop.time())
            partitions = [*partitions[1:], partitions[0]]
        chosen = partitions if arguments.rate is None else partitions[:1]
        counts = [min(size, max(left - index * size, 0)) for index in range(len(chosen))]
        sent_s = loop.time()
        await sender.send({each: Rows([value] * count) for each, count in zip(chosen, counts, strict=True) if count})
        latency.add((loop.time() - sent_s) * 1000, sum(counts))
        progress.add(sum(counts), sum(counts) * len(value))
    _show(progress.end(arguments.topic, latency.summary()), latency, arguments.output)
    return 0


async def bench_consume(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Read what is there, or so many records. `CommandError`."""
    partitions = await _partitions(cluster, arguments.topic)
    starts = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    reader = Reader(
        cluster,
        {partition: each.offset for partition, each in starts.items()},
        {partition: each.offset for partition, each in ends.items()},
        committed=False,
        timeout_s=arguments.timeout,
    )
    progress = _Progress()
    async with aclosing(reader.batches()) as batches:
        async for columns in batches:
            progress.add(len(columns), _size(columns))
            if arguments.num_records is not None and progress.records >= arguments.num_records:
                break
    _show(progress.end(arguments.topic, None), None, arguments.output)
    return 0


def _size(columns: Columns) -> int:
    return sum(len(each) for column in (columns.keys, columns.values) for each in column if each is not None)


async def bench_latency(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Write records one by one while another connection reads them. `CommandError`."""
    partitions = await _partitions(cluster, arguments.topic)
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    starts = {partition: each.offset for partition, each in ends.items()}
    run_id = os.urandom(16)
    sent_s: dict[int, float] = {}
    latency = Histogram()
    async with open_cluster(arguments) as other:  # a Fetch that waits holds up what comes after it on a connection
        reader = Reader(other, starts, None, committed=False, timeout_s=arguments.timeout)
        async with aclosing(reader.batches()) as batches:
            reading = asyncio.create_task(_received(batches, run_id, sent_s, latency, arguments.num_records))
            try:
                await _send_slowly(await _sender(cluster, arguments), partitions, run_id, sent_s, arguments)
                async with asyncio.timeout(arguments.timeout):
                    await reading
            except TimeoutError:
                missing = arguments.num_records - latency.count
                raise CommandError(f"{missing} records have not been read after {arguments.timeout:g} s") from None
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError, CommandError):
                    await reading
    _show(EndToEnd(arguments.topic, latency.count, latency.summary()), latency, arguments.output)
    return 0


async def _send_slowly(
    sender: Sender, partitions: list[Partition], run_id: bytes, sent_s: dict[int, float], arguments: argparse.Namespace
) -> None:
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    filling = os.urandom(max(arguments.record_size - _STAMP.size, 0))
    for number in range(arguments.num_records):
        await asyncio.sleep(started_s + number / arguments.rate - loop.time())
        sent_s[number] = loop.time()
        rows = Rows([_STAMP.pack(run_id, number) + filling])
        await sender.send({partitions[number % len(partitions)][1]: rows})


async def _received(
    batches: AsyncGenerator[Columns], run_id: bytes, sent_s: dict[int, float], latency: Histogram, count: int
) -> None:
    """Measure the records of this run until all have come."""
    loop = asyncio.get_running_loop()
    async for columns in batches:
        for value in columns.values:
            if value is not None and len(value) >= _STAMP.size and value.startswith(run_id):
                latency.add((loop.time() - sent_s.pop(_STAMP.unpack_from(value)[1])) * 1000)
        if latency.count >= count:
            return


async def _partitions(cluster: Cluster, topic: str) -> list[Partition]:
    found = await existing_partitions(cluster, {topic})
    if not found:
        raise CommandError(f"topic {topic}: there is no such topic (kwire topic create {topic})")
    return sorted(found)


async def _sender(cluster: Cluster, arguments: argparse.Namespace) -> Sender:
    settings = Settings(arguments.topic, arguments.acks, arguments.compression, arguments.timeout)
    return await Sender.open(cluster, settings, idempotent=arguments.acks == -1)


def _show(result: Throughput | EndToEnd, latency: Histogram | None, form: str) -> None:
    output.show_one(result, form)
    if form == "table" and latency is not None:
        print()
        for line in latency.lines():
            print(line)
