"""What the tests of this room share: a small broker's state on the memory store, and logs that only count."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.membership import Membership
from kwire.cluster.metadata.image import Endpoint, MetadataCache
from kwire.cluster.store.memory import MemoryStore
from kwire.log.common.append_info import AppendInfo, FetchedData

ENDPOINTS = [Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT")]


class FakeLog:
    """A log without bytes: one append is one offset."""

    def __init__(self, topic="t", partition=0, topic_id=b"i" * 16, config=None):
        self.topic, self.partition, self.topic_id, self.config = topic, partition, topic_id, config
        self.log_start_offset = self.log_end_offset = self.high_watermark = 0
        self.last_stable_offset = 0
        self.failure: Exception | None = None
        self.flushes = False
        self.epochs: list[int] = []

    def append_as_leader(self, records, *, leader_epoch, origin, verification=None):
        if self.failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        info = AppendInfo(self.log_end_offset, self.log_end_offset, 0, leader_epoch, len(records))
        if self.flushes:
            info.flushed = asyncio.get_running_loop().create_future()
        self.log_end_offset += 1
        self.epochs.append(leader_epoch)
        return info

    def advance_high_watermark(self, offset):
        self.high_watermark = self.last_stable_offset = offset

    def read(self, offset, max_bytes, *, upto, min_one, on_verified=None):
        if self.failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        return FetchedData(b"x" * (upto - offset), upto - offset)

    def flush_if_due(self):
        return None

    def begin_leader_epoch(self, epoch):
        self.epochs.append(epoch)

    def update_config(self, config):
        self.config = config


class FakeLogs:
    """The part of `LogManager` that replicas use."""

    def __init__(self):
        self.logs: dict[tuple[str, int], FakeLog] = {}
        self.aside: list[tuple[str, int]] = []
        self.deleted: list[tuple[str, int]] = []
        self.gate: asyncio.Event | None = None
        self.broken = False

    def __iter__(self):
        return iter(list(self.logs.values()))

    def is_offline(self, topic, partition):
        return False

    def get(self, topic, partition):
        return self.logs.get((topic, partition))

    def create(self, topic, partition, topic_id, config, *, is_new=True):
        if self.broken:
            raise OSError("disk on fire")
        assert (topic, partition) not in self.logs
        log = self.logs[topic, partition] = FakeLog(topic, partition, topic_id, config)
        return log

    async def delete(self, topic, partition):
        if self.gate is not None:
            await self.gate.wait()
        del self.logs[topic, partition]
        self.deleted.append((topic, partition))

    def set_aside_as_stray(self, topic, partition):
        del self.logs[topic, partition]
        self.aside.append((topic, partition))


class Node(SimpleNamespace):
    """One broker's part of the cluster, without network and disk."""

    store: MemoryStore
    metadata: MetadataCache
    controller: Controller
    membership: Membership
    config: KafkaConfig

    @property
    def image(self):
        return self.metadata.image


async def node(
    store: MemoryStore | None = None, broker_id: int = 1, *, join: bool = True, lease_ms: int = 9000, **properties: Any
) -> Node:
    """A broker that has joined; ``num_partitions="3"`` sets `num.partitions`."""
    doors = Doors(random=random.Random(7))
    store = store or MemoryStore()
    config = KafkaConfig({name.replace("_", "."): value for name, value in properties.items()})
    metadata = MetadataCache(store)
    await metadata.start()
    membership = Membership(doors, store, metadata, broker_id, lease_ms=lease_ms)
    controller = Controller(doors, config, store, metadata, broker_id)
    made = Node(
        store=store, metadata=metadata, controller=controller, membership=membership, config=config, doors=doors
    )
    if join:
        await membership.join(ENDPOINTS)
    return made
