"""A search through all messages of a topic: as a stream of what is found and how far it has come.

The scan runs per batch. It ends with its limits (matches, time, bytes) or when the browser goes away; a browser that is
slow to take what was found slows the scan. Other requests have their turn after each slice of `SLICE_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.offsets import Partition
from kwire.cli.records.columns import DECOMPRESSED_BYTES_MAX, Columns, decode_batch
from kwire.cli.records.reading import Reader
from kwire.codec.records import BatchHeader, Buffer
from kwire.codec.records.reader import read_body
from kwire.console.calls import Call
from kwire.console.events import Event, Events
from kwire.console.records.decoding import Decoded, Decoder, noted
from kwire.console.records.matching import Search, search_of
from kwire.console.records.places import is_committed, places

FOUND_DEFAULT: Final = 500
FOUND_MAX: Final = 5000
SECONDS_DEFAULT: Final = 60
SECONDS_MAX: Final = 600
MEGABYTES_DEFAULT: Final = 16 * 1024
"""Mebibytes of batches, as they are fetched."""
PROGRESS_S: Final = 0.25
SLICE_S: Final = 0.02
QUEUED_MAX: Final = 64
READ_S: Final = 10.0
"""Seconds until a partition that cannot be read ends the search."""


class Limits(NamedTuple):
    """When a search ends before the end of the partitions."""

    found: int
    seconds: float
    bytes: int


class Scan:
    """How far a search has come."""

    def __init__(
        self,
        search: Search,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        decoder: Decoder | None = None,
    ) -> None:
        self._search = search
        self._decoder = decoder
        self._starts = starts
        self.ends = ends
        self.at = dict(starts)
        self.scanned = 0
        self.matched = 0
        self.bytes = 0

    def decode(self, topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
        """The matching records of a batch; all of them if they have to be decoded first (`decoded`)."""
        here = (topic, partition)
        first, last = max(header.base_offset, self._starts[here]), min(header.next_offset, self.ends[here])
        self.scanned += min(header.count, max(last - first, 0))
        self.bytes += header.size
        if self._decoder is not None:
            return decode_batch(topic, partition, batch, header).between(self._starts[here], self.ends[here])
        if self._search.words and not self._search.may_match(
            read_body(batch, header, max_bytes=DECOMPRESSED_BYTES_MAX)
        ):
            return Columns(topic, partition, (), (), (), (), {}, header.next_offset)
        columns = decode_batch(topic, partition, batch, header)
        return self._search.matches(columns.between(self._starts[here], self.ends[here]))

    async def decoded(self, columns: Columns) -> Decoded:
        """The matching records of what `decode` has made. `CommandError` if the registry does not answer."""
        if self._decoder is None:
            return Decoded(columns, {})
        found, notes = await self._decoder.decoded(columns)
        return Decoded(self._search.matches(found), notes)

    def progress(self, seconds: float) -> dict[str, Any]:
        """The event ``progress``."""
        partitions = {str(each[1]): {"at": at, "end": self.ends[each]} for each, at in self.at.items()}
        rate = round(self.scanned / seconds) if seconds > 0 else 0
        counts = {"scanned": self.scanned, "matched": self.matched, "bytes": self.bytes}
        return {**counts, "rate": rate, "partitions": partitions}

    def done(self, reason: str, seconds: float) -> dict[str, Any]:
        """The event ``done``; ``resume`` is the parameter ``offsets`` of a search that goes on."""
        rest = {str(each[1]): at for each, at in self.at.items() if at < self.ends[each]}
        counts = {"scanned": self.scanned, "matched": self.matched, "bytes": self.bytes}
        return {"reason": reason, **counts, "seconds": round(seconds, 3), "resume": rest}


async def search(cluster: Cluster, call: Call) -> Events:
    """The events of a search. `CommandError`, `Refusal`."""
    wanted = search_of(call)
    limits = Limits(
        call.number("limit", FOUND_DEFAULT, 1, FOUND_MAX),
        call.number("seconds", SECONDS_DEFAULT, 1, SECONDS_MAX),
        call.number("megabytes", MEGABYTES_DEFAULT, 1, 1 << 30) << 20,
    )
    starts, ends, offline = await places(cluster, call, "earliest")
    scan = Scan(wanted, starts, ends, call.decoder)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    queue: asyncio.Queue[Event] = asyncio.Queue(QUEUED_MAX)
    scanning = asyncio.create_task(_scan(cluster, scan, limits, is_committed(call), queue))
    told_s = began_s
    if offline:
        yield Event("offline", {"partitions": offline})
    try:
        while not (scanning.done() and queue.empty()):
            event = await _next(queue, scanning, told_s + PROGRESS_S - loop.time())
            if event is not None:
                yield event
            if loop.time() - told_s >= PROGRESS_S:
                told_s = loop.time()
                yield Event("progress", scan.progress(told_s - began_s))
        reason = scanning.result()
        seconds = loop.time() - began_s
        yield Event("progress", scan.progress(seconds))
        yield Event("done", scan.done(reason, seconds))
    finally:
        scanning.cancel()
        await asyncio.gather(scanning, return_exceptions=True)


async def _next(queue: asyncio.Queue[Event], scanning: asyncio.Task[str], patience_s: float) -> Event | None:
    """What was found next; None after a time, or when the scan has ended."""
    if not queue.empty():
        return queue.get_nowait()
    getting = asyncio.create_task(queue.get())
    await asyncio.wait({getting, scanning}, timeout=max(patience_s, 0), return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    return None


async def _scan(cluster: Cluster, scan: Scan, limits: Limits, committed: bool, queue: asyncio.Queue[Event]) -> str:
    """Read and look; why it ended. What is found goes into the queue, which holds the scan up when it is full."""
    try:
        async with asyncio.timeout(limits.seconds):
            return await _read(_batches(cluster, scan, committed), scan, limits, queue)
    except TimeoutError:
        return "time"


def _batches(cluster: Cluster, scan: Scan, committed: bool) -> AsyncGenerator[Columns]:
    starts = dict(scan.at)
    return Reader(cluster, starts, scan.ends, committed=committed, timeout_s=READ_S, decode=scan.decode).batches()


async def _read(reading: AsyncGenerator[Columns], scan: Scan, limits: Limits, queue: asyncio.Queue[Event]) -> str:
    loop = asyncio.get_running_loop()
    slice_s = loop.time()
    async with aclosing(reading) as batches:
        async for columns in batches:
            here = (columns.topic, columns.partition)
            columns, notes = await scan.decoded(columns)
            for index, each in enumerate(noted(columns, notes)):
                await queue.put(Event("message", each))
                scan.matched += 1
                if scan.matched >= limits.found:
                    scan.at[here] = columns.offsets[index] + 1
                    return "limit"
            scan.at[here] = max(columns.next_offset, scan.at[here])
            if scan.bytes >= limits.bytes:
                return "bytes"
            if loop.time() - slice_s > SLICE_S:
                await asyncio.sleep(0)
                slice_s = loop.time()
    return "end"
