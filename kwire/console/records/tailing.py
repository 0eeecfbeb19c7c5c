"""The messages that come, as a stream: the newest of them ten times a second, and how many there were.

All batches are fetched, so that the rate is true, but only the newest are decoded: what is not shown is counted. The
leader is asked as often as the page is told, and not for each batch that comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import Any, Final

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.offsets import Partition
from kwire.cli.records.columns import Columns, decode_batch
from kwire.cli.records.reading import Reader
from kwire.codec.records import BatchHeader, Buffer
from kwire.console.calls import Call
from kwire.console.events import Event, Events
from kwire.console.records.decoding import shown
from kwire.console.records.messages import Message
from kwire.console.records.places import is_committed, places

INTERVAL_S: Final = 0.1
IDLE_S: Final = 1.0
"""How often a page is told that nothing has come."""
SHOWN_MAX: Final = 50
HELD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of batches between two events."""
READ_S: Final = 30.0
"""Seconds until a partition that cannot be read ends the tail: a broker that restarts does not."""
RATE_S: Final = 2.0
TURN_S: Final = 0.002
"""Batches are kept for so long in one turn of the event loop."""


class Tail:
    """What has come since the last event."""

    def __init__(self) -> None:
        self._held: deque[tuple[str, int, bytes, BatchHeader]] = deque()
        self._held_records = 0
        self._held_bytes = 0
        self._skipped = 0
        self.came = 0

    def decode(self, topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
        """Keep a batch for the next event."""
        self.came += header.count
        self._held.append((topic, partition, bytes(batch), header))
        self._held_records += header.count
        self._held_bytes += header.size
        while len(self._held) > 1 and (
            self._held_records - self._held[0][3].count >= SHOWN_MAX or self._held_bytes > HELD_BYTES_MAX
        ):
            self._skipped += self._drop().count
        return Columns(topic, partition, (), (), (), (), {}, header.next_offset)

    def _drop(self) -> BatchHeader:
        _, _, _, header = self._held.popleft()
        self._held_records -= header.count
        self._held_bytes -= header.size
        return header

    def take(self, starts: dict[Partition, int]) -> tuple[list[Columns], int]:
        """The newest records, at least `SHOWN_MAX` if there are so many, and how many others there were. A batch may
        have begun before the tail."""
        found: list[Columns] = []
        skipped, self._skipped = self._skipped, 0
        while self._held:
            topic, partition, batch, header = self._held[0]
            columns = decode_batch(topic, partition, batch, header).between(starts[topic, partition], None)
            if len(columns) > SHOWN_MAX:
                skipped += len(columns) - SHOWN_MAX
                columns = columns.take(range(len(columns) - SHOWN_MAX, len(columns)))
            found.append(columns)
            self._drop()
        return found, skipped


class _Rate:
    """Messages a second, over the last `RATE_S`."""

    def __init__(self, now_s: float) -> None:
        self._times: deque[tuple[float, int]] = deque([(now_s, 0)])

    def at(self, now_s: float, came: int) -> int:
        """The rate now, after so many messages."""
        self._times.append((now_s, came))
        while len(self._times) > 2 and now_s - self._times[0][0] > RATE_S:
            self._times.popleft()
        began_s, before = self._times[0]
        return round((came - before) / (now_s - began_s)) if now_s > began_s else 0


async def tail(cluster: Cluster, call: Call) -> Events:
    """The events ``messages``. `CommandError`, `Refusal`."""
    starts, _, offline = await places(cluster, call, "latest")
    coming = Tail()
    reading = asyncio.create_task(_read(cluster, dict(starts), is_committed(call), coming))
    loop = asyncio.get_running_loop()
    rate = _Rate(loop.time())
    yield Event("messages", _event([], 0, 0))
    if offline:
        yield Event("offline", {"partitions": offline})
    told_s, told = loop.time(), 0
    try:
        while True:
            await asyncio.wait({reading}, timeout=INTERVAL_S)
            if reading.done():
                reading.result()
            if coming.came == told and loop.time() - told_s < IDLE_S:
                continue
            told_s, told = loop.time(), coming.came
            taken, skipped = coming.take(starts)
            found = [each for columns in taken for each in await shown(call.decoder, columns)]
            found.sort(key=lambda each: (each["timestamp"], each["partition"], each["offset"]))
            skipped += max(len(found) - SHOWN_MAX, 0)
            yield Event("messages", _event(found[-SHOWN_MAX:], rate.at(told_s, told), skipped))
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _event(found: list[Message], rate: int, skipped: int) -> dict[str, Any]:
    return {"messages": found, "rate": rate, "skipped": skipped}


async def _read(cluster: Cluster, starts: dict[Partition, int], committed: bool, coming: Tail) -> None:
    reader = Reader(
        cluster, starts, None, committed=committed, timeout_s=READ_S, decode=coming.decode, pause_s=INTERVAL_S
    )
    clock = asyncio.get_running_loop().time
    async with aclosing(reader.batches()) as batches:
        began_s = clock()
        async for _ in batches:
            if clock() - began_s > TURN_S:  # not after each: there may be thousands of one record
                await asyncio.sleep(0)
                began_s = clock()
