"""What the tests of the cluster share: a small broker's state on the memory store, and logs without files."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.metrics import MetricsRegistry, TopicMetrics
from kwire.cluster.controller.controller import Controller
from kwire.cluster.controller.elections import ElectionRules
from kwire.cluster.controller.membership import Membership, Registration
from kwire.cluster.metadata.features import SUPPORTED, Range
from kwire.cluster.metadata.image import ClusterImage, Endpoint, MetadataCache
from kwire.cluster.replication.partition import Partition
from kwire.cluster.replication.replica_manager import ReplicaManager
from kwire.cluster.replication.throttles import Throttles
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.memory import MemoryStore
from kwire.log.common.append_info import AppendInfo, FetchedData

ENDPOINTS = [Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT")]


class FakeLog:
    """A log without bytes: one append is one offset."""

    def __init__(self, topic: str = "t", partition: int = 0, topic_id: bytes = b"i" * 16, config: Any = None) -> None:
        self.topic, self.partition, self.topic_id, self.config = topic, partition, topic_id, config
        self.log_start_offset = self.log_end_offset = self.high_watermark = 0
        self.last_stable_offset = 0
        self.failure: Exception | None = None
        self.flushes = False
        self.leader_epochs: list[int] = []
        self.epochs = SimpleNamespace(latest_epoch=0)

    def append_as_leader(self, records: memoryview, *, leader_epoch: int, origin: Any, guard: Any = None) -> AppendInfo:
        if self.failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        info = AppendInfo(self.log_end_offset, self.log_end_offset, 0, leader_epoch, len(records))
        if self.flushes:
            info.flushed = asyncio.get_running_loop().create_future()
        self.log_end_offset += 1
        self.leader_epochs.append(leader_epoch)
        return info

    def advance_high_watermark(self, offset: int) -> None:
        self.high_watermark = self.last_stable_offset = offset

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool, on_verified: Any = None) -> FetchedData:
        if self.failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        return FetchedData(b"x" * (upto - offset), upto - offset)

    def flush_if_due(self) -> None:
        return None

    def begin_leader_epoch(self, epoch: int) -> None:
        self.leader_epochs.append(epoch)

    def update_config(self, config: Any) -> None:
        self.config = config


class FakeLogs:
    """The part of `LogManager` that replicas use."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], FakeLog] = {}
        self.aside: list[tuple[str, int]] = []
        self.deleted: list[tuple[str, int]] = []
        self.gate: asyncio.Event | None = None
        self.broken = False

    def __iter__(self) -> Iterator[FakeLog]:
        return iter(list(self.logs.values()))

    def is_offline(self, topic: str, partition: int) -> bool:
        return False

    def get(self, topic: str, partition: int) -> FakeLog | None:
        return self.logs.get((topic, partition))

    def create(self, topic: str, partition: int, topic_id: bytes, config: Any, *, is_new: bool = True) -> FakeLog:
        if self.broken:
            raise OSError("disk on fire")
        assert (topic, partition) not in self.logs
        log = self.logs[topic, partition] = FakeLog(topic, partition, topic_id, config)
        return log

    async def delete(self, topic: str, partition: int) -> None:
        if self.gate is not None:
            await self.gate.wait()
        del self.logs[topic, partition]
        self.deleted.append((topic, partition))

    def set_aside_as_stray(self, topic: str, partition: int) -> None:
        del self.logs[topic, partition]
        self.aside.append((topic, partition))


class NoFetchers:
    """`PartitionFetchers` of a broker whose partitions follow nobody."""

    def follow(self, partition: Partition, /) -> None:
        pass

    def forget(self, partition: Partition, /) -> None:
        pass

    async def close(self) -> None:
        pass


class NoIsrChanges:
    """`IsrChanges` that lead nowhere: every ISR stays as it is."""

    def propose(self, partition: Partition, isr: tuple[int, ...], /) -> None:
        pass

    async def close(self) -> None:
        pass


def nothing() -> None:
    """A callback that does nothing."""


def default_rules(_image: ClusterImage, _topic: str) -> ElectionRules:
    """Kafka's defaults."""
    return ElectionRules(1, unclean=False)


def partition_on(broker_id: int, log: Any) -> Partition:
    """A partition without a cluster around it; ``log`` may be a `FakeLog`."""
    return Partition(broker_id, log, TopicMetrics(), NoIsrChanges().propose)


def log_of(partition: Partition) -> FakeLog:
    """The `FakeLog` that a partition was given."""
    return cast(FakeLog, partition.log)


@dataclass(kw_only=True)
class Node:
    """One broker's part of the cluster, without network and disk."""

    broker_id: int
    store: MemoryStore
    metadata: MetadataCache
    controller: Controller
    membership: Membership
    config: KafkaConfig
    doors: Doors

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    def state(self, topic: str, index: int) -> PartitionState:
        """A partition that there must be in the image."""
        state = self.image.partition(topic, index)
        assert state is not None
        return state


def membership_of(
    doors: Doors,
    store: MemoryStore,
    metadata: MetadataCache,
    broker_id: int = 1,
    *,
    lease_ms: int = 9000,
    features: Mapping[str, Range] = SUPPORTED,
    on_loss: Callable[[], None] = nothing,
) -> Membership:
    """A broker's membership, not joined yet."""
    return Membership(
        doors,
        store,
        metadata,
        broker_id,
        Registration(ENDPOINTS, None, features, log_dirs=[("/data",)]),
        lease_ms=lease_ms,
        rules=default_rules,
        on_loss=on_loss,
    )


async def node(
    store: MemoryStore | None = None,
    broker_id: int = 1,
    *,
    join: bool = True,
    lease_ms: int = 9000,
    features: Mapping[str, Range] = SUPPORTED,
    **properties: str,
) -> Node:
    """A broker that has joined; ``num_partitions="3"`` sets `num.partitions`."""
    doors = Doors(random=random.Random(7))
    store = store or MemoryStore()
    config = KafkaConfig({name.replace("_", "."): value for name, value in properties.items()})
    metadata = MetadataCache(store)
    await metadata.start()
    made = Node(
        broker_id=broker_id,
        store=store,
        metadata=metadata,
        controller=Controller(doors, config, store, metadata, broker_id),
        membership=membership_of(doors, store, metadata, broker_id, lease_ms=lease_ms, features=features),
        config=config,
        doors=doors,
    )
    if join:
        await made.membership.join()
    return made


def replica_manager(made: Node, logs: Any) -> ReplicaManager:
    """A broker's replicas, which follow nobody and change no ISR; ``logs`` may be `FakeLogs`."""
    throttles = Throttles(made.config, made.metadata, made.broker_id, made.doors.clock.monotonic)
    return ReplicaManager(
        made.config,
        logs,
        made.metadata,
        made.broker_id,
        MetricsRegistry(),
        made.doors,
        NoFetchers(),
        NoIsrChanges(),
        throttles,
    )
