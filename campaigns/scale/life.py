"""The life of a simulated cluster, step by step: start, topics, idle time, small changes, a death, a return, a restart.

The brokers are kwire's own code; time, network, disks and the store are simulated (`harness.simulation`). One process
runs all of them, so its processor time and memory are those of the whole cluster.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from campaigns.scale.counting import Costs, CountingStore, CountingTrace, Meter
from campaigns.scale.disk import LeanDisk
from campaigns.seeds import silence
from harness.raw_client import RawClient
from harness.simulation.cluster import PORT, SimulatedBroker, SimulatedCluster
from harness.simulation.disk import Disk
from harness.simulation.world import Simulation
from kwire.base.errors import ErrorCode
from kwire.cli.start import GC_THRESHOLDS
from kwire.cluster.metadata.image import ClusterImage, MetadataCache
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SEED: Final = 1
FACTOR: Final = 3
PARTITIONS_PER_REQUEST: Final = 5000
POLL_S: Final = 0.02
STEP_S_MAX: Final = 600.0
IDLE_S: Final = 2.0
QUIET_S: Final = 1.0
TOPIC_RESOURCE: Final = 2
CREATE_VERSION: Final = 7
CONFIGS_VERSION: Final = 1
ELECT_VERSION: Final = 2

PROPERTIES: Final = {
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "1000",
    "broker.session.timeout.ms": "9000",
}
"""Kafka's defaults, where the simulation usually has shorter times."""


class NotReached(Exception):
    """A step did not end."""


@dataclass(frozen=True)
class Size:
    """How large a cluster is. ``topic_partitions``: partitions of each topic."""

    brokers: int
    partitions: int
    topic_partitions: int = 100


@dataclass
class Outcome:
    """What was measured at one size. ``calls``: by step and function, if they were counted."""

    size: Size
    steps: list[Costs] = field(default_factory=list)
    calls: dict[str, dict[str, int]] = field(default_factory=dict)
    image_bytes: float = 0.0

    def step(self, name: str) -> Costs:
        """The costs of one step."""
        return next(step for step in self.steps if step.step == name)


class LargeCluster(SimulatedCluster):
    """A simulated cluster whose store and disks count and keep only what is needed."""

    def __init__(self, simulation: Simulation, count: int) -> None:
        super().__init__(simulation, count, PROPERTIES)
        self.counting = CountingStore()
        self.store.memory = self.counting

    def new_disk(self) -> Disk:
        """See `SimulatedCluster.new_disk`."""
        return LeanDisk(self.simulation.trace, "disk", self.simulation.time_ms)

    @property
    def running(self) -> list[SimulatedBroker]:
        """The brokers whose process runs."""
        return [broker for broker in self.brokers.values() if broker.running and broker.broker is not None]

    @property
    def image(self) -> ClusterImage:
        """The controller's image."""
        broker = self.brokers[1].broker
        assert broker is not None
        return broker.metadata.image

    def caught_up(self) -> bool:
        """Whether all brokers have what the store has, and act on it."""
        revision = self.counting.revision
        for each in self.running:
            assert each.broker is not None
            if each.broker.metadata.image.revision < revision or each.broker.replicas.is_applying:
                return False
        return True

    def unfollowed(self) -> tuple[str, int] | None:
        """A partition that one of its followers has not fetched since its leader began to lead it; None if there is
        none."""
        for each in self.running:
            assert each.broker is not None
            for partition in each.broker.replicas.partitions():
                if any(follower.broker_epoch == -1 for _, follower in partition.in_sync_followers()):
                    return partition.topic, partition.index
        return None


class Life:
    """Runs the steps. Broker 1 starts first and is the controller; the last broker dies."""

    def __init__(self, simulation: Simulation, size: Size, *, count_calls: bool = False) -> None:
        trace = CountingTrace(simulation.loop.time)
        simulation.trace = simulation.network.trace = trace
        self._simulation = simulation
        self._size = size
        self._cluster = LargeCluster(simulation, size.brokers)
        self._meter = Meter(trace, self._cluster.counting, simulation.loop.time, count_calls=count_calls)
        self._machine = simulation.machine("admin")

    async def run(self) -> Outcome:
        """All steps; NotReached if one does not end."""
        size, meter, cluster = self._size, self._meter, self._cluster
        with meter.step("start"):
            await cluster.start()
        client = await RawClient.connect(self._machine.doors, cluster.brokers[1].host, PORT)
        with meter.step("create"):
            await self._create(client)
        gc.collect()
        gc.freeze()
        await asyncio.sleep(2 * QUIET_S)  # until followers have read every partition with its high watermark
        with meter.step("idle"):
            await asyncio.sleep(IDLE_S)
        with meter.step("config"):
            await self._alter(client)
            await self._until(lambda _: True)
        with meter.step("topic"):
            await self._create_topics(client, ["one-more"], 1)
        victim = cluster.brokers[size.brokers]
        with meter.step("death") as costs:
            costs.facts["led"] = led = self._led(victim.node_id)
            victim.kill()
            elected = await self._until(lambda image: not any(_holds(image, victim.node_id)))
            costs.facts["elected_s"] = elected
        assert led
        await asyncio.sleep(QUIET_S)
        with meter.step("return") as costs:
            await victim.start()
            costs.facts["in_sync_s"] = await self._until(_in_sync)
        with meter.step("preferred"):
            response = await client.call(ElectLeadersRequest(topic_partitions=None, timeout_ms=60_000), ELECT_VERSION)
            assert response.error_code == ErrorCode.NONE
            await self._until(lambda image: self._led(victim.node_id) == led)
        with meter.step("restart"):
            await victim.stop()
            await victim.start()
            await self._until(_in_sync)
        client.close()
        await cluster.stop()
        calls = {step: dict(found) for step, found in meter.calls.items()}
        return Outcome(size, meter.steps, calls, await image_bytes(cluster.counting))

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _create(self, client: RawClient) -> None:
        size = self._size
        topics = -(-size.partitions // size.topic_partitions)
        per_request = max(PARTITIONS_PER_REQUEST // size.topic_partitions, 1)
        for first in range(0, topics, per_request):
            names = [f"topic-{number}" for number in range(first, min(first + per_request, topics))]
            await self._create_topics(client, names, size.topic_partitions)

    async def _create_topics(self, client: RawClient, names: list[str], partitions: int) -> None:
        """Create topics, and wait until all followers fetch them: without their first fetches, a step with one commit
        would lack nearly all fetching, and one with twenty commits a twentieth of it."""
        factor = min(FACTOR, self._size.brokers)
        wanted = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor) for name in names]
        response = await client.call(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), CREATE_VERSION)
        assert not any(topic.error_code for topic in response.topics), response.topics[0]
        await self._until(lambda _: True)
        await self._until_followed()

    async def _alter(self, client: RawClient) -> None:
        change = AlterableConfig(name="retention.ms", config_operation=0, value="1000000")
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="topic-0", configs=[change])
        response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), CONFIGS_VERSION)
        assert not response.responses[0].error_code

    # -- conditions ---------------------------------------------------------------------------------------------------

    async def _until(self, condition: Callable[[ClusterImage], bool]) -> float:
        """Wait until a condition holds for the controller's image and all brokers have caught up; how long that was."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        seen = -1
        while True:
            with self._meter.looking():
                image = self._cluster.image
                if self._cluster.caught_up() and image.revision != seen:
                    seen = image.revision
                    if condition(image):
                        return loop.time() - started_s
            if loop.time() - started_s > STEP_S_MAX:
                raise NotReached(f"{self._size} did not come to rest within {STEP_S_MAX:.0f} simulated seconds")
            await asyncio.sleep(POLL_S)

    async def _until_followed(self) -> None:
        """Wait until every leader has had a fetch of each partition from each of its followers."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        while True:
            with self._meter.looking():
                if self._cluster.unfollowed() is None:
                    return
            if loop.time() - started_s > STEP_S_MAX:
                raise NotReached(f"{self._size}: {self._cluster.unfollowed()} is not fetched")
            await asyncio.sleep(POLL_S)

    def _led(self, broker_id: int) -> int:
        states = (state for topic in self._cluster.image.topics.values() for state in topic.partitions)
        return sum(state.leader == broker_id for state in states)


def _holds(image: ClusterImage, broker_id: int) -> Iterator[bool]:
    """Whether a broker leads a partition or is in its ISR, for each partition."""
    for topic in image.topics.values():
        for state in topic.partitions:
            yield state.leader == broker_id or broker_id in state.isr


def _in_sync(image: ClusterImage) -> bool:
    return all(
        len(state.isr) == len(state.replicas) and state.leader != -1
        for topic in image.topics.values()
        for state in topic.partitions
    )


async def image_bytes(store: CountingStore) -> float:
    """The memory of one broker's image of everything that is in the store."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    cache = MetadataCache(store)
    await cache.start()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return float(after - before)


def live(size: Size, *, count_calls: bool = False) -> Outcome:
    """Run a cluster of this size through its life."""
    simulation = Simulation(SEED)
    outcome: Any = simulation.run(Life(simulation, size, count_calls=count_calls).run())
    gc.unfreeze()
    assert isinstance(outcome, Outcome)
    return outcome


def live_apart(size: Size, memory_gb: float, *, count_calls: bool = False) -> Outcome:
    """`live` in a process of its own, which gets no more memory than this and collects garbage as a broker does."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_live_within, size, memory_gb, count_calls=count_calls).result()


def _live_within(size: Size, memory_gb: float, *, count_calls: bool) -> Outcome:
    silence()
    gc.set_threshold(*GC_THRESHOLDS)
    limit = int(memory_gb * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return live(size, count_calls=count_calls)
