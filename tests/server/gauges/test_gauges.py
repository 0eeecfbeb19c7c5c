"""Counts of partitions, elections and changes of the ISR under Kafka's names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.waiting import until
from kwire.base.doors import Clock
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, MetadataCache, TopicImage, whole_delta
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.memory import MemoryStore
from kwire.server.broker import Broker
from kwire.server.gauges.broker import broker_state
from kwire.server.gauges.elections import ElectionMeters
from kwire.server.gauges.loop import HANDLERS, NETWORK, LoopLoad

REPLICAS = "kafka.server:type=ReplicaManager,name="
CONTROLLER = "kafka.controller:type=KafkaController,name="


def figures(broker: Broker, prefix: str, *names: str) -> list[Any]:
    found = broker.metrics.snapshot()
    return [found[prefix + name] for name in names]


def meters(broker: Broker, *names: str) -> list[int]:
    return [value["Count"] for value in figures(broker, REPLICAS, *names)]


def one_of_two(directory: Path, node_id: int) -> Broker:
    return Broker(
        node_id=node_id,
        log_dir=directory / str(node_id),
        kwire_metadata_dir=directory / "metadata",
        listeners="PLAINTEXT://127.0.0.1:0",
    )


async def test_partitions_are_counted_by_their_in_sync_replicas(tmp_path: Path) -> None:
    async with one_of_two(tmp_path, 1) as broker:
        names = "LeaderCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount"
        async with one_of_two(tmp_path, 2):
            await until(lambda: len(broker.metadata.image.brokers) == 2)
            await broker.controller.create_topics([NewTopic("t", 4, 2, configs={"min.insync.replicas": "2"})])
            await until(lambda: figures(broker, REPLICAS, *names) == [2, 0, 0, 2])
            counts = "GlobalPartitionCount", "PreferredReplicaImbalanceCount"
            await until(lambda: figures(broker, CONTROLLER, *counts) == [4, 0])
        await until(lambda: figures(broker, REPLICAS, *names) == [4, 4, 4, 0])
        troubles = "OfflinePartitionsCount", "PreferredReplicaImbalanceCount"
        await until(lambda: figures(broker, CONTROLLER, *troubles) == [0, 2])
        async with one_of_two(tmp_path, 2):
            await until(lambda: meters(broker, "IsrExpandsPerSec", "IsrShrinksPerSec") == [4, 0])


async def test_a_running_broker_has_kafkas_state_and_idles(tmp_path: Path) -> None:
    async with Broker(store=MemoryStore(), log_dir=tmp_path, listeners="PLAINTEXT://127.0.0.1:0") as broker:
        assert figures(broker, "kafka.server:type=KafkaServer,name=", "BrokerState") == [3]
        purgatory = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation="
        assert figures(broker, purgatory, "Fetch", "Produce") == [0, 0]
        sessions = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetch"
        assert figures(broker, sessions, "Sessions", "PartitionsCached") == [0, 0]


async def test_connections_are_counted_by_listener_and_the_controller_leads_the_quorum(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0"
    protocols = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"
    async with Broker(
        store=MemoryStore(), log_dir=tmp_path, listeners=listeners, listener_security_protocol_map=protocols
    ) as broker:
        _, writer = await asyncio.open_connection("127.0.0.1", broker.parts.network.endpoints[0].port)
        prefix = "kafka.server:type=socket-server-metrics,listener="
        names = [f"{listener},networkProcessor=0,name=connection-count" for listener in ("PLAINTEXT", "INSIDE")]
        await until(lambda: figures(broker, prefix, *names) == [1, 0])
        writer.close()
        await until(lambda: figures(broker, prefix, *names) == [0, 0])
        [quorum] = figures(broker, "kafka.server:", "type=raft-metrics")
        image = broker.metadata.image
        assert (quorum["current-leader"], quorum["current-epoch"]) == (image.controller_id, image.controller_epoch)
        assert quorum["high-watermark"] == quorum["log-end-offset"] == image.revision


@pytest.mark.parametrize(("leaving", "code"), [(None, 1), (False, 3), (True, 6)])
def test_the_state_of_a_broker_has_kafkas_code(leaving: bool | None, code: int) -> None:
    brokers = {} if leaving is None else {1: BrokerImage(1, 7, {}, None, leaving)}
    assert broker_state(cast(MetadataCache, SimpleNamespace(image=ClusterImage(brokers=brokers))), 1) == code


async def test_the_idle_ratio_is_the_time_without_processor() -> None:
    now_s, busy_s = 100.0, 7.0
    clock = Clock(monotonic=lambda: now_s, thread_time=lambda: busy_s)
    metrics = MetricsRegistry(clock.monotonic)
    load = LoopLoad(metrics, clock)
    try:
        now_s, busy_s = 110.0, 9.5
        load._measure()
        found = metrics.snapshot()
        assert found[NETWORK] == 0.75
        assert (found[HANDLERS]["MeanRate"], found[HANDLERS]["Count"]) == (0.75, 7_500_000_000)
        now_s, busy_s = 120.0, 19.5
        load._measure()
        found = metrics.snapshot()
        assert (found[NETWORK], found[HANDLERS]["MeanRate"]) == (0.0, 0.375)
    finally:
        load.close()


class Metadata:
    """A cache whose images the test gives."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image

    def add_listener(self, listener: Any) -> None:
        self.listener = listener

    def follow(self, image: ClusterImage) -> None:
        self.image = image
        self.listener(image, whole_delta(image))


def image(*states: PartitionState, controller: int = 1) -> ClusterImage:
    return ClusterImage(controller_id=controller, topics={"t": TopicImage("t", b"i" * 16, states)})


def state(isr: tuple[int, ...], leader: int, elr: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState((1, 2, 3), isr, leader, 0, 0, elr)


def counted(*images: ClusterImage) -> tuple[int, int]:
    """Unclean elections, and those from eligible replicas."""
    metrics = MetricsRegistry()
    metadata: Any = Metadata(images[0])
    ElectionMeters(metrics, metadata, 1)
    for each in images[1:]:
        metadata.follow(each)
    found = metrics.snapshot()
    stats = "kafka.controller:type=ControllerStats,name="
    return (
        found[stats + "UncleanLeaderElectionsPerSec"]["Count"],
        found[stats + "ElectionFromEligibleLeaderReplicasPerSec"]["Count"],
    )


def test_an_election_is_unclean_if_the_leader_was_neither_in_sync_nor_eligible() -> None:
    assert counted(image(state((1, 2), 1)), image(state((2,), 2)), image(state((), -1, (2,)))) == (0, 0)
    assert counted(image(state((), -1, (2,))), image(state((2,), 2))) == (0, 1)
    assert counted(image(state((), -1)), image(state((3,), 3))) == (1, 0)


def test_only_the_controller_counts_elections() -> None:
    assert counted(image(state((), -1), controller=2), image(state((3,), 3), controller=2)) == (0, 0)


def test_partitions_and_topics_that_are_new_are_not_elections() -> None:
    assert counted(image(state((1,), 1)), image(state((1,), 1), state((2,), 2))) == (0, 0)
    assert counted(ClusterImage(controller_id=1), image(state((1,), 1))) == (0, 0)
