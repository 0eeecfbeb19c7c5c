"""Staging: what a task has encoded waits in a topic until the driver's transaction takes it.

A staged record is one record batch for one target partition. Its key says whose it is: the attempt of a task, then the
target's partition and topic. What no transaction takes (a failed or a doubled attempt) goes by the topic's retention.
"""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check, describe_error
from kwire.cli.connection.offsets import LATEST, Partition, list_offsets
from kwire.cli.records.reading import Reader
from kwire.cli.records.writing.encoding import Rows, encode_batch
from kwire.cli.records.writing.gathering import Gathering
from kwire.cli.records.writing.parsing import Batch
from kwire.cli.records.writing.partitioner import Partitioner
from kwire.cli.records.writing.sending import Sender, Settings
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.rows import added, digest

STAGING_PARTITIONS: Final = 4
STAGING_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "segment.ms": "600000",
    "max.message.bytes": "104857600",
}
"""An hour is long for a batch between its tasks and its commit; one that takes longer fails, and is made again."""
_PAUSE_S: Final = 0.1
_LOOKS: Final = 300
_SEND_BYTES: Final = 900_000
_TARGET: Final = struct.Struct(">16si")


class Staged(NamedTuple):
    """What one attempt of a task has staged: `batches` records between two offsets of a staging partition; and the
    number and the digest of the rows in them."""

    attempt: bytes
    partition: int
    start: int
    end: int
    batches: int
    rows: int
    digest: int


class Stager:
    """Takes the rows of one attempt of a task. `add` them, then `finish`."""

    def __init__(self, cluster: Cluster, options: SinkOptions, partition: int, start: int, sender: Sender) -> None:
        self._cluster = cluster
        self._options = options
        self._partition = partition
        self._start = start
        self._sender = sender
        self._attempt = uuid.uuid4().bytes
        self._topics: dict[str, tuple[Gathering, int]] = {}
        self._waiting: list[tuple[bytes, bytes]] = []
        self._waiting_bytes = 0
        self._count = self._rows = self._digest = 0

    @classmethod
    async def open(cls, cluster: Cluster, options: SinkOptions, task: int) -> Stager:
        """A stager for the task of that number; makes the staging topic if it is not there. `CommandError`."""
        count = await partition_count(cluster, options.staging_topic)
        if count is None:
            await create_topic(cluster, options.staging_topic, STAGING_PARTITIONS, STAGING_CONFIGS)
            count = STAGING_PARTITIONS
        place = (options.staging_topic, task % count)
        start = await _end_of(cluster, place, options)
        settings = Settings(options.staging_topic, acks=-1, compression=0, timeout_s=options.timeout_s)
        return cls(cluster, options, place[1], start, await Sender.open(cluster, settings, idempotent=True))

    async def add(self, topic: str, batch: Batch) -> None:
        """Take records for a topic. `SinkError` for a partition that the topic does not have, `CommandError`."""
        gathering, partitions = self._topics.get(topic) or await self._gathering(topic)
        for each in {*(batch.partitions or ())} - {None}:
            if each is not None and not 0 <= each < partitions:
                raise SinkError(f"a row names partition {each}: topic {topic} has {partitions}")
        self._rows += len(batch.rows.values)
        self._digest = added(self._digest, digest(batch.rows))
        gathering.add(batch)
        await self._take(topic, gathering)

    async def finish(self) -> Staged:
        """Stage the rest. When this returns all is acknowledged."""
        for topic, (gathering, _) in self._topics.items():
            gathering.end()
            await self._take(topic, gathering)
        await self._send()
        place = (self._options.staging_topic, self._partition)
        end = await _end_of(self._cluster, place, self._options) if self._count else self._start
        return Staged(self._attempt, self._partition, self._start, end, self._count, self._rows, self._digest)

    async def _gathering(self, topic: str) -> tuple[Gathering, int]:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._options.block_s
        while (count := await partition_count(self._cluster, topic, create=True)) is None:
            if loop.time() > end_s:
                raise SinkError(
                    f"topic {topic} does not exist: create it, or let the brokers do so (auto.create.topics.enable)"
                )
            await asyncio.sleep(_PAUSE_S)  # Apache Kafka says so, too, of a topic that it is creating
        self._topics[topic] = Gathering(Partitioner(count), None), count
        return self._topics[topic]

    async def _take(self, topic: str, gathering: Gathering) -> None:
        now_ms = time.time_ns() // 1_000_000
        for partition, rows in gathering.full:
            content = encode_batch(rows, now_ms, compression=self._options.compression)
            if self._waiting_bytes + len(content) > _SEND_BYTES:
                await self._send()
            self._waiting.append((_TARGET.pack(self._attempt, partition) + topic.encode(), content))
            self._waiting_bytes += len(content)
        gathering.full.clear()

    async def _send(self) -> None:
        if self._waiting:
            keys, values = zip(*self._waiting, strict=True)
            await self._sender.send({self._partition: Rows(values, keys)})
            self._count += len(values)
            self._waiting, self._waiting_bytes = [], 0


async def staged_batches(
    cluster: Cluster, options: SinkOptions, staged: Sequence[Staged]
) -> AsyncIterator[tuple[Partition, bytes]]:
    """The record batches of these attempts, each with its target, in the order of each attempt. `SinkError` if one is
    not there any more."""
    left = {each.attempt: each.batches for each in staged if each.batches}
    for partition, parts in _by_partition(staged).items():
        place = (options.staging_topic, partition)
        start, end = min(each.start for each in parts), max(each.end for each in parts)
        reader = Reader(cluster, {place: start}, {place: end}, committed=False, timeout_s=options.timeout_s)
        async for columns in reader.batches():
            for key, value in zip(columns.keys, columns.values, strict=True):
                if key is None or value is None or len(key) <= _TARGET.size:
                    continue
                attempt, target = _TARGET.unpack_from(key)
                if attempt in left:
                    left[attempt] -= 1
                    yield (key[_TARGET.size :].decode(), target), value
    if any(left.values()):
        raise SinkError(
            f"{sum(left.values())} staged batches are not in topic {options.staging_topic} any more: its retention.ms"
            " must be longer than a batch takes; restart the query"
        )


def _by_partition(staged: Iterable[Staged]) -> dict[int, list[Staged]]:
    found: dict[int, list[Staged]] = {}
    for each in staged:
        if each.batches:
            found.setdefault(each.partition, []).append(each)
    return found


async def _end_of(cluster: Cluster, place: Partition, options: SinkOptions) -> int:
    """The offset after the last record of a partition, which may be so new that its leader has not heard of it."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + options.block_s
    while True:
        cluster.extend()
        try:
            return (await list_offsets(cluster, {place: LATEST}))[place].offset
        except CommandError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or loop.time() > end_s:
                raise
        await asyncio.sleep(_PAUSE_S)


async def partition_count(cluster: Cluster, topic: str, *, create: bool = False) -> int | None:
    """The number of a topic's partitions; None if there is no such topic. ``create``: let the broker create it if it
    does that (auto.create.topics.enable). `CommandError`."""

    async def ask() -> int | None:
        (found,) = (await cluster.metadata([topic], allow_creation=create)).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        check(found.error_code, f"topic {topic}")
        return len(found.partitions)

    cluster.extend()
    return await cluster.until_done(ask)


async def create_topic(cluster: Cluster, name: str, partitions: int, configs: dict[str, str]) -> None:
    """Create a topic of the sink with the cluster's replication factor, unless another task was faster."""
    own: Any = [CreatableTopicConfig(name=each, value=value) for each, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=own)

    async def ask() -> None:
        (made,) = (await cluster.call(CreateTopicsRequest(topics=[topic]))).topics
        if made.error_code == ErrorCode.NOT_CONTROLLER:
            check(made.error_code, name)
        if made.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            reason = describe_error(made.error_code, made.error_message)
            wanted = ", ".join(f"{key}={value}" for key, value in configs.items())
            raise CommandError(f"topic {name} cannot be created: {reason}; create it yourself with {wanted}")

    await cluster.until_done(ask)
    for _ in range(_LOOKS):
        if await partition_count(cluster, name) is not None:
            return
        await asyncio.sleep(_PAUSE_S)  # the broker that was asked hears of it from the controller
    raise CommandError(f"topic {name} was created, but the broker does not know of it")
