"""What the cluster says: which partitions there are, and the offsets at which a query begins and ends."""

from __future__ import annotations

import asyncio
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kwire.arrow.ranges import Partition, Positions
from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import NO_OFFSET, list_offsets
from kwire.spark.clusters import run_at
from kwire.spark.source.errors import SourceError
from kwire.spark.source.options import EARLIEST, LATEST, ByPartition, Limit, SourceOptions

T = TypeVar("T")
_PAUSE_S: Final = 0.1
_ATTEMPTS: Final = 10
_CREATION_S: Final = 10.0
"""Seconds for which a topic that does not exist is waited for."""


class Topics(NamedTuple):
    """Partitions, and the ids of their topics: a topic that is deleted and made again has another."""

    partitions: tuple[Partition, ...]
    ids: Mapping[str, str]


def ask_cluster(options: SourceOptions, action: Callable[[Cluster], Awaitable[T]]) -> T:
    """The outcome of something asked of the cluster. `SourceError` for what the cluster refuses, too."""
    try:
        return run_at(options.bootstrap, options.properties, options.timeout_s, action)
    except CommandError as error:
        raise SourceError(str(error)) from None


def is_gone(error: CommandError) -> bool:
    """Whether a topic or a partition does not exist, or not any more."""
    return error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or "has no partition" in str(error)


async def steadily(cluster: Cluster, action: Callable[[Cluster], Awaitable[T]]) -> T:
    """The outcome of something that finds topics and asks for their offsets. It is begun anew if one of them is deleted
    between the two."""
    for attempt in range(_ATTEMPTS):
        try:
            return await action(cluster)
        except CommandError as error:
            if not is_gone(error):
                raise
        await asyncio.sleep(_PAUSE_S * (attempt + 1))
    return await action(cluster)


async def find_topics(cluster: Cluster, options: SourceOptions, *, must_exist: bool = True) -> Topics:
    """The partitions that the options name, as they are now. `SourceError` for a topic or partition that does not
    exist, if it must; topics of a pattern may be none."""
    cluster.extend()
    if options.pattern is not None:
        pattern = re.compile(options.pattern)
        response = await cluster.until_done(cluster.metadata)
        found = [topic for topic in response.topics if pattern.fullmatch(topic.name) and not topic.is_internal]
    else:
        names = options.topics or tuple(options.partitions or ())
        found = await _named(cluster, names, min(options.timeout_s, _CREATION_S), must_exist=must_exist)
    partitions = []
    for topic in found:
        there = {each.partition_index for each in topic.partitions}
        wanted = there if options.partitions is None else options.partitions[topic.name]
        if must_exist and (missing := {*wanted} - there):
            raise SourceError(f"topic {topic.name} has no partition {min(missing)}: it has {len(there)}")
        partitions += [(topic.name, each) for each in wanted if each in there]
    ids = {topic.name: urlsafe_b64encode(topic.topic_id).decode().rstrip("=") for topic in found if any(topic.topic_id)}
    return Topics(tuple(sorted(partitions)), ids)


async def _named(cluster: Cluster, names: Iterable[str], timeout_s: float, *, must_exist: bool) -> list[Any]:
    """The topics of these names. One that is not there is asked for again: brokers that create topics by themselves say
    so at first."""
    wanted = list(names)

    async def ask() -> list[Any]:
        found = []
        for topic in (await cluster.metadata(wanted, allow_creation=must_exist)).topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not must_exist:
                continue
            check(topic.error_code, f"topic {topic.name}")
            found.append(topic)
        return found

    end_s = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            return await cluster.until_done(ask)
        except CommandError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            if asyncio.get_running_loop().time() > end_s:
                raise SourceError(f"{error}: create it, or correct the option subscribe or assign") from None
        await asyncio.sleep(_PAUSE_S)


async def ends_of(cluster: Cluster, options: SourceOptions, partitions: Iterable[Partition], which: int) -> Positions:
    """The `EARLIEST` or `LATEST` offsets; the latest with read_committed is the last stable one."""
    wanted = dict.fromkeys(partitions, which)
    cluster.extend()
    found = await list_offsets(cluster, wanted, committed=options.committed) if wanted else {}
    return {partition: each.offset for partition, each in found.items()}


async def resolve(
    cluster: Cluster, options: SourceOptions, partitions: tuple[Partition, ...], limit: Limit, name: str
) -> Positions:
    """The offsets that a limit means for each partition. ``name``: the option's, for errors. `SourceError`."""
    if limit.offset is not None:
        return await ends_of(cluster, options, partitions, limit.offset)
    if limit.offsets is not None:
        if unknown := limit.topics.keys() - {topic for topic, _ in partitions}:
            raise SourceError(f"option {name}Offsets names {min(unknown)}, which is not read")
        by_topic = {each: limit.topics[each[0]] for each in partitions if each[0] in limit.topics}
        rest = tuple(each for each in partitions if each not in by_topic)
        given = by_topic | _each(rest, limit.offsets, f"{name}Offsets")
        found = {partition: offset for partition, offset in given.items() if offset >= 0}
        for which in (EARLIEST, LATEST):
            ends = [partition for partition, offset in given.items() if offset == which]
            found |= await ends_of(cluster, options, ends, which)
        return found
    times = dict.fromkeys(partitions, limit.timestamp)
    if limit.timestamps is not None:
        times = _each(partitions, limit.timestamps, f"{name}OffsetsByTimestamp")
    cluster.extend()
    wanted = {partition: time_ms or 0 for partition, time_ms in times.items()}
    listed = await list_offsets(cluster, wanted)
    late = [partition for partition, each in listed.items() if each.offset == NO_OFFSET]
    if late and name == "starting" and options.late_is_error:
        topic, number = min(late)
        raise SourceError(
            f"no offset of {topic}-{number} has a timestamp of {wanted[topic, number]} or later: set the option"
            " startingOffsetsByTimestampStrategy to latest to begin at its end"
        )
    found = {partition: each.offset for partition, each in listed.items() if partition not in late}
    return found | await ends_of(cluster, options, late, LATEST)


def _each(partitions: tuple[Partition, ...], given: ByPartition, name: str) -> dict[Partition, int]:
    """What is given for each partition; it must be given for exactly those that there are. `SourceError`."""
    found = {(topic, number): value for topic, numbers in given.items() for number, value in numbers.items()}
    if different := {*found} ^ {*partitions}:
        topic, number = min(different)
        what = "does not name" if (topic, number) in partitions else "names"
        reason = "" if (topic, number) in partitions else ", which is not read"
        raise SourceError(f"option {name} {what} {topic}-{number}{reason}: it must name every partition, and no other")
    return found
