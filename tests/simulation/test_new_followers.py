"""Partitions that begin to follow while their fetcher's request sleeps at the leader."""

from __future__ import annotations

import asyncio

from harness.simulation import Simulation
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.workload import TOPIC, Client, create_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

PARTITIONS = 12
SLEEP_S = 20


async def acknowledged(client: Client, partition: int) -> ErrorCode:
    """Write a record that all replicas must have."""
    batch = build_batch([Record(offset=0, timestamp=1, key=None, value=b"x")])
    data = PartitionProduceData(index=partition, records=memoryview(bytearray(batch)))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    while (leader := await client.leader(partition)) is None:  # noqa: ASYNC110 - on a virtual clock
        await asyncio.sleep(0.01)
    answer = await client.call(leader, ProduceRequest(acks=-1, timeout_ms=900, topic_data=[topic]), 11)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def new_partitions_are_followed_at_once(simulation: Simulation) -> None:
    waits = {"replica.fetch.wait.max.ms": str(SLEEP_S * 1000), "replica.lag.time.max.ms": "60000"}
    cluster = SimulatedCluster(simulation, 3, waits)
    await cluster.start()
    await create_topic(cluster, 1, {})
    client = Client(cluster, "client", PARTITIONS)
    assert await acknowledged(client, 0) is ErrorCode.NONE
    await asyncio.sleep(SLEEP_S / 4)
    began_s = asyncio.get_running_loop().time()
    grown = CreatePartitionsTopic(name=TOPIC, count=PARTITIONS, assignments=None)
    answer = await client.call(("b1", 9092), CreatePartitionsRequest(topics=[grown], timeout_ms=900), 3)
    assert answer.results[0].error_code == 0
    for partition in range(1, PARTITIONS):
        assert await acknowledged(client, partition) is ErrorCode.NONE
    assert asyncio.get_running_loop().time() - began_s < 1
    await cluster.stop()


def test_new_partitions_are_followed_though_the_fetch_sleeps() -> None:
    for seed in range(3):
        simulation = Simulation(seed)
        simulation.run(new_partitions_are_followed_at_once(simulation))
