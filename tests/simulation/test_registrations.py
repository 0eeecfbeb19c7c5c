"""Brokers of a simulated cluster that are unregistered while they run, and come back, under load."""

from __future__ import annotations

import asyncio

from harness.simulation import Simulation
from harness.simulation.cluster import SimulatedBroker, SimulatedCluster
from harness.simulation.workload import TOPIC, Client, Consumer, History, Producer, create_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.unregister_broker_request import UnregisterBrokerRequest

ROUND_S = 4


def knows_only(broker: SimulatedBroker, others: set[int]) -> bool:
    running = broker.broker
    assert running is not None
    return set(running.metadata.image.registered) == others


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - on a virtual clock
            await asyncio.sleep(0.05)


async def every_broker_is_unregistered_in_turn(simulation: Simulation) -> None:
    """Whatever is acknowledged meanwhile is there in the end; the one that was unregistered leads nothing and is no
    controller until it is started anew."""
    cluster = SimulatedCluster(simulation, 3)
    await cluster.start()
    await create_topic(cluster, 2, {"min.insync.replicas": "2"})
    client, history = Client(cluster, "client", 2), History()
    loop = asyncio.get_running_loop()
    sending = asyncio.ensure_future(Producer(client, history, iter(range(1, 100_000))).run(loop.time() + 3 * ROUND_S))
    for node_id, broker in cluster.brokers.items():
        await asyncio.sleep(1)
        answer = await client.call_any(UnregisterBrokerRequest(broker_id=node_id), 0)
        assert answer.error_code == ErrorCode.NONE
        others = set(cluster.brokers) - {node_id}
        await until(lambda others=others: all(knows_only(each, others) for each in cluster.brokers.values()))
        running = broker.broker
        assert running is not None
        await until(lambda running=running: not any(each.leading for each in running.replicas.partitions()))
        await until(lambda running=running, others=others: running.metadata.image.controller_id in others)
        await asyncio.sleep(1)
        assert knows_only(broker, others)
        for index in (0, 1):
            state = running.metadata.image.partition(TOPIC, index)
            assert state is not None
            assert set(state.isr) <= others
            assert state.leader in others
        assert await broker.stop()
        await broker.start()
        everybody = set(cluster.brokers)
        await until(lambda everybody=everybody: all(knows_only(each, everybody) for each in cluster.brokers.values()))
        for index in (0, 1):
            await until(
                lambda running=broker, index=index: len(running.broker.metadata.image.partition(TOPIC, index).isr) == 3
            )
    await sending
    reader = Consumer(client, history, "reader")
    await reader.read_to_end()
    assert len(history.acked) > 100
    assert set(history.acked) <= {value for _, _, value in reader.read}
    assert len(reader.read) == len({value for _, _, value in reader.read})
    await cluster.stop()


def test_whatever_is_acknowledged_outlives_the_unregistration_of_each_broker() -> None:
    for seed in range(4):
        simulation = Simulation(seed)
        simulation.run(every_broker_is_unregistered_in_turn(simulation))
