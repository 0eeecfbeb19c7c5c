"""A page of messages, and one message as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final, NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.offsets import EARLIEST, LATEST, Partition, list_offsets
from kwire.cli.positions import Kind, Position, resolve
from kwire.cli.records.columns import Columns, decode_batch
from kwire.cli.records.reading import Reader
from kwire.codec.records import BatchHeader, Buffer
from kwire.console.calls import Call
from kwire.console.failures import bad_request, unknown
from kwire.console.records.decoding import shown
from kwire.console.records.messages import WHOLE_BYTES_MAX, Message
from kwire.console.records.places import is_committed, places, position, topic_metadata

PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 500


class Page(NamedTuple):
    """Messages in the order of their times. ``first`` and ``next``: where the page begins, and where to go on, by
    partition; ``ends``: the offsets there are; ``complete``: False if the timeout was over before all was read;
    ``offline``: partitions without a leader."""

    messages: list[Message]
    first: dict[str, int]
    next: dict[str, int]
    ends: dict[str, int]
    complete: bool
    offline: list[int]


class _Filling:
    """The records of a page: as many of each partition as its share allows."""

    def __init__(self, starts: dict[Partition, int], shares: dict[Partition, int]) -> None:
        self._left = dict(shares)
        self.next = dict(starts)
        self.found: list[Columns] = []

    @property
    def is_full(self) -> bool:
        return not any(self._left.values())

    def decode(self, topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
        """The records of a batch, unless the partition has its share."""
        if self._left[topic, partition]:
            return decode_batch(topic, partition, batch, header)
        return Columns(topic, partition, (), (), (), (), {}, header.next_offset)

    def add(self, columns: Columns, end: int) -> None:
        """Take what belongs to the page."""
        here = (columns.topic, columns.partition)
        left = self._left[here]
        if not left:
            return
        taken = columns if len(columns) <= left else columns.take(range(left))
        self.found.append(taken)
        self._left[here] = left - len(taken)
        self.next[here] = columns.next_offset if taken is columns else taken.offsets[-1] + 1
        if self.next[here] >= end:
            self._left[here] = 0


def _shares(sizes: Mapping[Partition, int], limit: int) -> dict[Partition, int]:
    """How many messages each partition may have: alike, and what small ones do not need goes to the others."""
    shares = dict.fromkeys(sizes, 0)
    rest = limit
    for number, each in enumerate(sorted(sizes, key=lambda each: sizes[each])):
        shares[each] = min(max(sizes[each], 0), -(-rest // (len(sizes) - number)))
        rest -= shares[each]
    return shares


async def list_messages(cluster: Cluster, call: Call) -> Page:
    """Messages from a position on; with ``from=-N`` the newest ones. `CommandError`, `Refusal`."""
    limit = call.number("limit", PAGE_DEFAULT, 1, PAGE_MAX)
    starts, ends, offline = await places(cluster, call, "earliest")
    first = position(call, "from", "earliest")
    if first.kind is Kind.BEFORE_END and not call.query.get("offsets"):
        low = await resolve(cluster, dict.fromkeys(starts, Position(Kind.EARLIEST)))
        limit = min(limit, first.number)
        shares = _shares({each: ends[each] - low[each] for each in ends}, limit)
        starts = {each: ends[each] - shares[each] for each in ends}
    else:
        shares = _shares({each: ends[each] - starts[each] for each in starts}, limit)
    filling = _Filling(starts, shares)
    complete = True
    if not filling.is_full:
        try:
            async with asyncio.timeout(call.timeout_s):
                await _fill(cluster, call, filling, starts, ends)
        except TimeoutError:
            complete = False
    shown_messages = [each for columns in filling.found for each in await shown(call.decoder, columns)]
    found = sorted(shown_messages, key=lambda each: (each["timestamp"], each["partition"], each["offset"]))
    return Page(found, _by_index(starts), _by_index(filling.next), _by_index(ends), complete, offline)


def _by_index(offsets: Mapping[Partition, int]) -> dict[str, int]:
    return {str(index): offset for (_, index), offset in offsets.items()}


async def _fill(
    cluster: Cluster, call: Call, filling: _Filling, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> None:
    reader = Reader(
        cluster, starts, ends, committed=is_committed(call), timeout_s=call.timeout_s, decode=filling.decode
    )
    async with aclosing(reader.batches()) as batches:
        async for columns in batches:
            filling.add(columns, ends[columns.topic, columns.partition])
            if filling.is_full:
                return
            await asyncio.sleep(0)


async def whole_message(cluster: Cluster, call: Call) -> Message:
    """The message at an offset, cut to `WHOLE_BYTES_MAX` only. `CommandError`, `Refusal`."""
    name, partition, offset = call.path["topic"], *(_number(call.path[each]) for each in ("partition", "offset"))
    topic = await topic_metadata(cluster, name)
    if partition not in {each.partition_index for each in topic.partitions}:
        raise unknown("partition", f"topic {name} has no partition {partition}")
    here = (name, partition)
    low = (await list_offsets(cluster, {here: EARLIEST}))[here].offset
    end = (await list_offsets(cluster, {here: LATEST}))[here].offset
    if low <= offset < end:
        reader = Reader(cluster, {here: offset}, {here: end}, committed=False, timeout_s=call.timeout_s)
        async with asyncio.timeout(call.timeout_s), aclosing(reader.batches()) as batches:
            async for columns in batches:
                if len(columns) and columns.offsets[0] == offset:
                    [found] = await shown(call.decoder, columns.take([0]), WHOLE_BYTES_MAX)
                    return found
                if columns.next_offset > offset:
                    break
    raise unknown("message", f"{name}-{partition} has no message at offset {offset}")


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise bad_request(f"{text} is not a number")
    return int(text)
