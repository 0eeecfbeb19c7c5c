"""Replicas that move between brokers of a simulated cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.simulation import Simulation
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.workload import TOPIC, Client, Consumer, History, Producer, create_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codec.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest


async def move(client: Client, replicas: list[int] | None) -> ErrorCode:
    """Ask for other replicas of partition 0; None cancels."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[partition])])
    answer = await client.call_any(request, 1)
    return ErrorCode(answer.responses[0].partitions[0].error_code)


async def moving(client: Client) -> list[Any]:
    answer = await client.call_any(ListPartitionReassignmentsRequest(topics=None), 0)
    return [partition for topic in answer.topics for partition in topic.partitions]


def state_of(cluster: SimulatedCluster, broker: int) -> Any:
    running = cluster.brokers[broker].broker
    assert running is not None
    return running.metadata.image.partition(TOPIC, 0)


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - on a virtual clock
            await asyncio.sleep(0.05)


async def a_partition_moves(simulation: Simulation) -> None:
    cluster = SimulatedCluster(simulation, 4)
    await cluster.start()
    await create_topic(cluster, 1, {})
    client, history = Client(cluster, "client", 1), History()
    before = state_of(cluster, 1).replicas
    new = next(each for each in cluster.brokers if each not in before)
    target = [new, *before[:2]]
    loop = asyncio.get_running_loop()
    sending = asyncio.ensure_future(Producer(client, history, iter(range(1, 10_000))).run(loop.time() + 4))
    await asyncio.sleep(1)
    assert await move(client, target) is ErrorCode.NONE
    await until(lambda: state_of(cluster, 1).replicas == tuple(target))
    assert set(state_of(cluster, 1).isr) == set(target)
    assert await moving(client) == []
    gone = cluster.brokers[before[2]].broker
    assert gone is not None
    assert gone.replicas.get(TOPIC, 0) is None
    await sending
    reader = Consumer(client, history, "reader")
    await reader.read_to_end()
    assert sorted(value for _, _, value in reader.read) == sorted(history.acked)
    assert history.acked
    assert not history.unknown
    await cluster.stop()


async def a_move_is_cancelled(simulation: Simulation) -> None:
    cluster = SimulatedCluster(simulation, 4)
    await cluster.start()
    await create_topic(cluster, 1, {})
    client = Client(cluster, "client", 1)
    before = state_of(cluster, 1).replicas
    new = next(each for each in cluster.brokers if each not in before)
    cluster.brokers[new].pause()  # it cannot catch up
    assert await move(client, [new, *before[:2]]) is ErrorCode.NONE
    (under_way,) = await moving(client)
    assert (under_way.adding_replicas, under_way.removing_replicas) == ([new], [before[2]])
    assert await move(client, None) is ErrorCode.NONE
    assert await moving(client) == []
    assert await move(client, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert state_of(cluster, before[0]).replicas == before
    cluster.brokers[new].resume()
    await cluster.stop()


def test_a_partition_moves_to_another_broker_while_it_is_written() -> None:
    simulation = Simulation(1)
    simulation.run(a_partition_moves(simulation))


def test_a_move_that_cannot_end_is_cancelled() -> None:
    simulation = Simulation(2)
    simulation.run(a_move_is_cancelled(simulation))
