"""What ``kwire consume`` does: from partitions, through filters, to standard output."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from kwire.cli.connection import options
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, UsageError, check
from kwire.cli.connection.offsets import LATEST, Partition, list_offsets
from kwire.cli.groups.commits import committed_offsets
from kwire.cli.positions import Kind, Position, parse_position, resolve
from kwire.cli.records.columns import Columns
from kwire.cli.records.filters import Filter, header_filter, json_filter, key_filter, value_filter
from kwire.cli.records.membership import Member
from kwire.cli.records.outputs import Output, output_to
from kwire.cli.records.reading import Reader

if TYPE_CHECKING:
    from kwire.cli.records.decoding import PayloadDecoder

_COMMIT_INTERVAL_S: Final = 5.0


class _Task:
    """A command's options, read and checked: how far it has come, and how records get to the output."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        output: Output,
        filters: Sequence[Filter],
        start: Position,
        decoder: PayloadDecoder | None,
    ) -> None:
        self.topics: Sequence[str] = list(dict.fromkeys(arguments.topics))
        self.chosen: Sequence[int] = arguments.partition
        self.until_end: bool = arguments.until_end
        self.committed = arguments.isolation == "read_committed"
        self.timeout_s: float = arguments.timeout
        self.start = start
        self.output = output
        self.decoder = decoder
        self._filters = filters
        self._count_max: int | None = arguments.count_max
        self.written: dict[Partition, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether as many records are written as were wanted."""
        return self._count_max is not None and self.output.count >= self._count_max

    def write(self, columns: Columns) -> None:
        """Write what passes the filters, and remember the offset to which that is done."""
        next_offset = columns.next_offset
        if self.decoder is not None:
            columns = self.decoder.decoded(columns)
        for each in self._filters:
            passing = each(columns)
            if len(passing) < len(columns):
                columns = columns.take(passing)
        if self._count_max is not None and len(columns) > (left := self._count_max - self.output.count):
            columns = columns.take(range(left))
            next_offset = columns.offsets[-1] + 1
        self.output.add(columns)
        self.written[columns.topic, columns.partition] = next_offset


def _task(arguments: argparse.Namespace) -> _Task:
    try:
        filters = [
            *map(key_filter, arguments.filter_key),
            *map(value_filter, arguments.filter_value),
            *map(header_filter, arguments.filter_header),
            *map(json_filter, arguments.filter_json),
        ]
        start = parse_position(arguments.start or "earliest", time.time_ns() // 1_000_000)
        output = output_to(sys.stdout.buffer, arguments.output, arguments.format)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.group is not None and arguments.partition:
        raise UsageError("--group and --partition: the group's coordinator assigns partitions")
    return _Task(arguments, output, filters, start, _decoder(arguments))


def _decoder(arguments: argparse.Namespace) -> PayloadDecoder | None:
    """What decodes keys and values, if that was wanted. `CommandError`."""
    if arguments.registry is None:
        return None
    from kwire.cli.records.decoding import PayloadDecoder
    from kwire.cli.schemas.client import RegistryClient
    from kwire.cli.schemas.lookup import SchemaLookup

    chosen = options.settings(arguments)
    return PayloadDecoder(SchemaLookup(RegistryClient(arguments.registry, chosen.properties, chosen.timeout_s)))


async def consume(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Read until the end that the options name; the exit status. `CommandError`, `UsageError`."""
    task = _task(arguments)
    try:
        if arguments.group is None:
            await _consume_partitions(cluster, task)
        else:
            await _consume_as_member(cluster, task, arguments.group)
    except asyncio.CancelledError:  # Ctrl-C; a JSON array ends all the same
        task.output.close()
        raise
    task.output.close()
    if task.decoder is not None and (failures := task.decoder.failures) is not None:
        print(f"kwire: {failures}", file=sys.stderr)
    return 0


async def _consume_partitions(cluster: Cluster, task: _Task) -> None:
    partitions = await _partitions(cluster, task.topics, task.chosen)
    starts = await resolve(cluster, dict.fromkeys(partitions, task.start), committed=task.committed)
    async with aclosing(await _batches(cluster, task, starts)) as batches:
        async for columns in batches:
            task.write(columns)
            if task.is_full:
                return


async def _partitions(cluster: Cluster, topics: Iterable[str], wanted: Iterable[int]) -> list[Partition]:
    """The partitions of topics; only those wanted, if any are named. `CommandError` for those that do not exist."""
    chosen = sorted(set(wanted))
    found: list[Partition] = []
    response = await cluster.metadata(topics)
    for topic in response.topics:
        check(topic.error_code, f"topic {topic.name}")
        existing = sorted(each.partition_index for each in topic.partitions)
        for index in chosen:
            if index not in existing:
                raise CommandError(f"topic {topic.name} has no partition {index}")
        found += [(topic.name, index) for index in chosen or existing]
    return found


async def _batches(cluster: Cluster, task: _Task, starts: dict[Partition, int]) -> AsyncGenerator[Columns]:
    """The batches from these offsets, to the end of now if that was wanted."""
    ends = None
    if task.until_end:
        found = await list_offsets(cluster, dict.fromkeys(starts, LATEST), committed=task.committed)
        ends = {partition: each.offset for partition, each in found.items()}
    reader = Reader(cluster, starts, ends, committed=task.committed, timeout_s=task.timeout_s)
    return reader.batches()


async def _consume_as_member(cluster: Cluster, task: _Task, group: str) -> None:
    member = Member(cluster, group, task.topics)
    await member.join()
    heartbeats = asyncio.create_task(member.run())
    try:
        while not await _consume_assignment(cluster, task, group, member, heartbeats):
            pass
    finally:
        heartbeats.cancel()
        with suppress(asyncio.CancelledError, CommandError):
            await heartbeats
        await _commit(task, member)
        await member.leave()


async def _consume_assignment(
    cluster: Cluster, task: _Task, group: str, member: Member, heartbeats: asyncio.Task[None]
) -> bool:
    """Read what the member has, until that changes; whether the end is reached."""
    partitions = await member.take()
    starts = await _starts(cluster, task, group, partitions)
    pump = asyncio.create_task(_pump(await _batches(cluster, task, starts), task, bool(starts)))
    changed = asyncio.create_task(member.changed.wait())
    try:
        waited = {pump, changed, heartbeats}
        while not (await asyncio.wait(waited, timeout=_COMMIT_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED))[0]:
            await _commit(task, member)
        if heartbeats.done():
            heartbeats.result()  # the failure
        return pump.done() and pump.result()
    finally:
        await _ended(pump, changed)
        if not heartbeats.done():
            await _commit(task, member)


async def _starts(cluster: Cluster, task: _Task, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The committed offsets; where there is none, or records have been removed since, what ``--from`` says."""
    committed = await committed_offsets(cluster, group)
    positions = {
        each: Position(Kind.OFFSET, committed[each]) if each in committed else task.start for each in partitions
    }
    return await resolve(cluster, positions, committed=task.committed) if positions else {}


async def _pump(batches: AsyncGenerator[Columns], task: _Task, has_partitions: bool) -> bool:
    """Write batches; True at the end. A member without partitions waits for some."""
    if not has_partitions:
        await asyncio.sleep(task.timeout_s)
        return task.until_end
    async with aclosing(batches) as closing:
        async for columns in closing:
            task.write(columns)
            if task.is_full:
                break
            await asyncio.sleep(0)  # heartbeats and commits go out between batches
    return True


async def _ended(*tasks: asyncio.Task[bool]) -> None:
    """Cancel tasks, and wait until they are over. The failure of one is raised by whoever has waited for it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _commit(task: _Task, member: Member) -> None:
    """Commit what is written of the member's partitions."""
    written, task.written = task.written, {}
    await member.commit({each: offset for each, offset in written.items() if each in member.partitions})
