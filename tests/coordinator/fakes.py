"""In-memory replacements for what the group coordinator uses: partition, log, replica manager, metadata cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.codec.records import iter_headers, patch_offsets
from kwire.log.common.append_info import AppendInfo, FetchedData


@dataclass
class FakeLog:
    """A log in memory. ``broken``: reads fail."""

    topic: str
    partition: int
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0
    broken: bool = False
    segments: tuple[object, ...] = ()  # no batch was found on disk, so none has to be verified

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True) -> FetchedData:
        if self.broken:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        wanted = b"".join(batch for end, batch in self.batches if end > offset)
        first = next((len(batch) for end, batch in self.batches if end > offset), 0)
        data = wanted[: max(max_bytes, first)]
        return FetchedData(data, len(data))


class FakePartition:
    """A partition that commits at once. With ``hold`` set, `commit` moves the high watermark. ``refuse``: appends fail
    with this error."""

    def __init__(self, index: int = 0, log: FakeLog | None = None) -> None:
        self.index = index
        self.log = log or FakeLog(OFFSETS_TOPIC, index)
        self.hold = False
        self.refuse: ErrorCode | None = None
        self.high_watermark = self.log.log_end_offset
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def append(self, records: memoryview, *, required_acks: int, origin: Any) -> AppendInfo:
        assert required_acks == -1
        if self.refuse is not None:
            raise KafkaError(self.refuse)
        first = self.log.log_end_offset
        [(_, header)] = list(iter_headers(records))
        patch_offsets(records, 0, first, 0)
        self.log.log_end_offset = end = first + header.last_offset_delta + 1
        self.log.batches.append((end, bytes(records)))
        if not self.hold:
            self.commit()
        return AppendInfo(first, end - 1, 0, 0, len(records))

    def commit(self) -> None:
        self.high_watermark = self.log.log_end_offset
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            future.set_result(None)

    def resign(self) -> None:
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            future.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def wait_committed(self, offset: int) -> asyncio.Future[None] | None:
        if offset < self.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, future))
        return future


class FakeReplicas:
    """A replica manager that leads the given partitions of the offsets topic."""

    def __init__(self, *partitions: FakePartition) -> None:
        self.partitions = list(partitions)
        self.callback: Callable[[int, Any], None] = lambda index, partition: None

    def on_leadership(self, topic: str, callback: Callable[[int, Any], None]) -> None:
        assert topic == OFFSETS_TOPIC
        self.callback = callback
        for partition in self.partitions:
            callback(partition.index, partition)


class FakeMetadata:
    """A metadata cache with the offsets topic and the given topics."""

    def __init__(self, offsets_partitions: int = 1, topics: dict[str, int] | None = None) -> None:
        counts = {OFFSETS_TOPIC: offsets_partitions} | (topics or {})
        self.image: Any = SimpleNamespace(
            topics={
                name: SimpleNamespace(name=name, id=name.encode().ljust(16, b"-")[:16], partitions=(None,) * count)
                for name, count in counts.items()
                if count
            }
        )
        self.image.topics_by_id = {topic.id: topic for topic in self.image.topics.values()}
        self.image.topic = self.image.topics.get
        self.image.partition = self._partition
        self.image.brokers = {}
        self.image.revision = 1
        self.image.notes = {}
        self.image.config = lambda resource, name: {}
        self.listener: Callable[[Any, Any], None] = lambda image, delta: None

    def _partition(self, topic: str, index: int) -> Any:
        found = self.image.topics.get(topic)
        there = found is not None and 0 <= index < len(found.partitions)
        return SimpleNamespace(leader=1) if there else None

    def add_listener(self, listener: Callable[[Any, Any], None]) -> None:
        self.listener = listener

    def delete(self, topic: str) -> None:
        gone = self.image.topics.pop(topic)
        self.listener(self.image, SimpleNamespace(changed=[], deleted=[gone]))
