"""Throttled replication in a simulated cluster, set up as Kafka's reassignment tool does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from harness.simulation import Simulation
from harness.simulation.cluster import PORT, SimulatedCluster
from harness.simulation.workload import TOPIC, Client, create_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from tests.simulation.test_reassignment import move, state_of, until

TOPICS: Final = 2
BROKERS: Final = 4
LOGGERS: Final = 8
RECORD_BYTES: Final = 4_900  # two fit into a fetch


class Moving:
    """A topic of one partition on three of four brokers, with something in it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.client = Client(cluster, "client", 1)

    async def write(self, count: int) -> None:
        """Each must be acknowledged by all that are in sync, and soon."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            batch = build_batch([Record(offset=0, timestamp=1, key=None, value=b"x" * RECORD_BYTES)])
            data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
            topic = TopicProduceData(name=TOPIC, partition_data=[data])
            leader = await self.client.leader(0)
            assert leader is not None
            began_s = loop.time()
            answer = await self.client.call(leader, ProduceRequest(acks=-1, timeout_ms=900, topic_data=[topic]), 11)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert loop.time() - began_s < 0.5

    async def change(self, broker: int, *resources: tuple[int, str, dict[str, str]]) -> list[ErrorCode]:
        """Set properties by asking one broker."""
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[
                        AlterableConfig(name=each, config_operation=0, value=value) for each, value in texts.items()
                    ],
                )
                for kind, name, texts in resources
            ]
        )
        answer = await self.client.call((f"b{broker}", PORT), request, 1)
        return [ErrorCode(each.error_code) for each in answer.responses]

    async def throttle(self, name: str, rate: int, replicas: str) -> None:
        """``name``: leader or follower; each broker is asked for itself, as the tool does it."""
        changed = await self.change(1, (TOPICS, TOPIC, {f"{name}.replication.throttled.replicas": replicas}))
        for broker in self.cluster.brokers:
            own = (BROKERS, str(broker), {f"{name}.replication.throttled.rate": str(rate)})
            changed += await self.change(broker, own)
        assert set(changed) == {ErrorCode.NONE}
        assert {getattr(self.throttles(each), name).rate for each in self.cluster.brokers} == {rate}

    def throttles(self, broker: int) -> Any:
        running = self.cluster.brokers[broker].broker
        assert running is not None
        return running.replicas.throttles

    async def move(self) -> int:
        """Begin to replace the last replica by the broker that has none."""
        before = state_of(self.cluster, 1).replicas
        (new,) = set(self.cluster.brokers) - set(before)
        assert await move(self.client, [*before[:2], new]) is ErrorCode.NONE
        return new

    def size_at(self, broker: int) -> int:
        running = self.cluster.brokers[broker].broker
        assert running is not None
        partition = running.replicas.get(TOPIC, 0)
        return 0 if partition is None else partition.log.size

    def moved_to(self, broker: int) -> bool:
        state = state_of(self.cluster, 1)
        return broker in state.isr and not state.adding and not state.removing


def tell(told: Callable[[Moving], Coroutine[Any, Any, None]]) -> None:
    async def run(simulation: Simulation) -> None:
        cluster = SimulatedCluster(simulation, 4, {"replica.fetch.max.bytes": "10000"})
        await cluster.start()
        await create_topic(cluster, 1, {})
        await told(Moving(cluster))
        await cluster.stop()

    simulation = Simulation(1)
    simulation.run(run(simulation))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_takes_its_time_and_keeps_nobody_from_writing(side: str) -> None:
    async def told(story: Moving) -> None:
        await story.write(40)
        state = state_of(story.cluster, 1)
        (new,) = set(story.cluster.brokers) - set(state.replicas)
        at = ",".join(f"0:{each}" for each in state.replicas) if side == "leader" else f"0:{new}"
        await story.throttle(side, 20_000, at)
        began_s = asyncio.get_running_loop().time()
        assert await story.move() == new
        await asyncio.sleep(3)
        assert 30_000 < story.size_at(new) < 110_000
        await story.write(4)
        await until(lambda: story.moved_to(new))
        assert 8 < asyncio.get_running_loop().time() - began_s < 16

    tell(told)


def test_a_throttle_that_is_lifted_lets_a_move_end() -> None:
    async def told(story: Moving) -> None:
        await story.write(40)
        await story.throttle("leader", 1, "*")
        new = await story.move()
        await asyncio.sleep(5)
        assert story.size_at(new) < 50_000
        assert not story.moved_to(new)
        await story.throttle("leader", 10_000_000, "*")
        began_s = asyncio.get_running_loop().time()
        await until(lambda: story.moved_to(new))
        assert asyncio.get_running_loop().time() - began_s < 3

    tell(told)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_who_is_in_sync_is_not_throttled(side: str) -> None:
    async def told(story: Moving) -> None:
        await story.throttle(side, 1, "*")
        await story.write(20)
        await asyncio.sleep(3)
        await story.write(5)
        state = state_of(story.cluster, 1)
        assert set(state.isr) == set(state.replicas)

    tell(told)


def test_a_rate_for_all_brokers_is_set_through_any_of_them() -> None:
    async def told(story: Moving) -> None:
        everybody = (BROKERS, "", {"follower.replication.throttled.rate": "4321"})
        assert await story.change(3, everybody) == [ErrorCode.NONE]
        await until(lambda: {story.throttles(each).follower.rate for each in story.cluster.brokers} == {4321})

    tell(told)


def test_a_broker_changes_its_own_properties_and_loggers_only() -> None:
    async def told(story: Moving) -> None:
        rate, level = {"leader.replication.throttled.rate": "5"}, {"kwire.cluster": "WARN"}
        for broker in story.cluster.brokers:
            other = str(broker % 4 + 1)
            assert await story.change(broker, (BROKERS, other, rate)) == [ErrorCode.INVALID_REQUEST]
            assert await story.change(broker, (LOGGERS, other, level)) == [ErrorCode.INVALID_REQUEST]
            own = ((LOGGERS, str(broker), level), (BROKERS, str(broker), rate), (LOGGERS, other, level))
            assert await story.change(broker, *own) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]

    tell(told)
