"""What is to be read of an end: ranges of offsets, or files, in pieces of bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kwire.arrow.errors import ReadError
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.files.segments import FileRange
from kwire.arrow.ranges import Range
from kwire.audit.ends import DirectoryEnd, End, TableEnd, TopicEnd
from kwire.audit.errors import AuditError
from kwire.audit.tables import table_files
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.positions import Kind, Position, resolve

PIECE: Final = 2_000_000
"""Offsets that one task reads."""


class Plan(NamedTuple):
    """What is read of an end, in order. One of ``ranges`` (of a topic), ``files`` (of a data directory) and ``tables``
    (paths) has something, or the end is empty. ``partitions``: of the topic; 0 for a table. ``rows``: at most so many;
    of a table none, until its files are looked at."""

    end: End
    ranges: Sequence[Range] = ()
    files: Sequence[FileRange] = ()
    tables: Sequence[str] = ()
    partitions: int = 0
    rows: int = 0

    @property
    def pieces(self) -> list[Range | FileRange | str]:
        """What tasks read."""
        return [*self.ranges, *self.files, *self.tables]


def plan(end: End, *, committed: bool, from_ms: int | None = None, may_lack: bool = False) -> Plan:
    """What an end has now. ``from_ms``: nothing before this time is needed. ``may_lack``: a topic that does not exist
    is empty. `AuditError`, `ReadError`, `CommandError`."""
    if isinstance(end, TableEnd):
        return Plan(end, tables=table_files(end))
    if isinstance(end, DirectoryEnd):
        return _of_directory(end, committed=committed, may_lack=may_lack)
    return asyncio.run(_of_topic(end, committed=committed, from_ms=from_ms, may_lack=may_lack))


def topics(end: End) -> list[str]:
    """The topics of a cluster or a data directory, without the internal ones. `AuditError`."""
    if isinstance(end, TableEnd):
        raise AuditError(f"{end.text}: a pattern stands for topics, not for tables")
    if isinstance(end, DirectoryEnd):
        names = {topic for topic, _ in DataDirectory(end.path).partitions()}
        return sorted(each for each in names if not each.startswith("__"))
    return asyncio.run(_topics(end))


async def _topics(end: TopicEnd) -> list[str]:
    cluster = Cluster.of(end.bootstrap, end.properties, end.timeout_s)
    try:
        return sorted(each.name for each in (await cluster.metadata()).topics if not each.is_internal)
    finally:
        cluster.close()


async def _of_topic(end: TopicEnd, *, committed: bool, from_ms: int | None, may_lack: bool) -> Plan:
    cluster = Cluster.of(end.bootstrap, end.properties, end.timeout_s)
    try:
        (found,) = (await cluster.metadata([end.topic])).topics
        try:
            check(found.error_code, f"topic {end.topic}")
        except CommandError:
            if may_lack:
                return Plan(end)
            raise
        places = sorted((end.topic, each.partition_index) for each in found.partitions)
        first = Position(Kind.EARLIEST) if from_ms is None else Position(Kind.TIME, from_ms)
        starts = await resolve(cluster, dict.fromkeys(places, first), committed=committed)
        ends = await resolve(cluster, dict.fromkeys(places, Position(Kind.LATEST)), committed=committed)
    finally:
        cluster.close()
    whole = [Range(*place, starts[place], max(starts[place], ends[place])) for place in places]
    pieces = [piece for each in whole for piece in _pieces(each)]
    return Plan(end, ranges=pieces, partitions=len(places), rows=sum(each.size for each in whole))


def _pieces(wanted: Range) -> list[Range]:
    bounds = [*range(wanted.start, wanted.end, PIECE), wanted.end]
    return [wanted._replace(start=low, end=high) for low, high in pairwise(bounds)]


def _of_directory(end: DirectoryEnd, *, committed: bool, may_lack: bool) -> Plan:
    directory = DataDirectory(end.path)
    places = [each for each in directory.partitions() if each[0] == end.topic]
    if not places and not may_lack:
        raise ReadError(f"{end.path}: there is no topic {end.topic}")
    found, rows = [], 0
    for place in places:
        visible = directory.visible(place, committed=committed)
        rows += visible.end - visible.start
        for piece in _pieces(Range(*place, visible.start, visible.end)):
            found.append(FileRange(piece, visible.end, visible.identity))
    return Plan(end, files=found, partitions=len(places), rows=rows)
