"""The cleaner inside a simulated broker: no child process, no real time, the same trace for the same seed."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.raw_client import RawClient
from harness.simulation import Simulation
from kwire.base.config import KafkaConfig
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_headers, iter_records
from kwire.server.broker import Broker

BROKER = {"log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092", "log.cleaner.backoff.ms": "500"}
TOPIC = {"cleanup.policy": "compact", "internal.segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}


async def create(client: RawClient) -> None:
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in TOPIC.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
    answer = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert answer.topics[0].error_code == 0, answer


async def write(client: RawClient, simulation: Simulation, first: int) -> None:
    for i in range(first, first + 100):
        record = Record(timestamp=simulation.time_ms(), key=b"key-%d" % (i % 7), value=b"%d" % i * 5)
        data = PartitionProduceData(index=0, records=memoryview(bytearray(build_batch([record]))))
        request = ProduceRequest(
            acks=-1, timeout_ms=9000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        )
        answer = (await client.call(request, 9)).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        await asyncio.sleep(0.02)


def content(machine: Any) -> dict[bytes | None, bytes | None]:
    values: dict[bytes | None, bytes | None] = {}
    for name in machine.disk.listdir("/data/t-0"):
        if name.endswith(".log"):
            data = machine.disk.read(f"/data/t-0/{name}")
            for at, header in iter_headers(data):
                records = iter_records(data[at : at + header.size], max_bytes=10_000)
                values |= {record.key: record.value for record in records}
    return values


async def scenario(simulation: Simulation, cleaned: list[int]) -> None:
    machine = simulation.machine("broker")
    store = MemoryStore()
    for turn in range(2):  # over a restart
        async with Broker(KafkaConfig(BROKER), doors=machine.doors, store=store) as broker:
            async with await simulation.machine(f"client-{turn}").connect("broker:9092") as client:
                if turn == 0:
                    await create(client)
                    await asyncio.sleep(1)
                await write(client, simulation, turn * 100)
            await asyncio.sleep(2)
            cleaned.append(broker.logs.cleaner.figures.cleanings)
            assert broker.logs.cleaner.uncleanable == {}
    assert content(machine) == {b"key-%d" % (i % 7): b"%d" % i * 5 for i in range(200)}


def test_a_simulated_broker_compacts_and_does_so_again_for_the_same_seed() -> None:
    digests = []
    for _ in range(2):
        simulation = Simulation(3)
        cleaned: list[int] = []
        simulation.run(scenario(simulation, cleaned))
        assert min(cleaned) > 0
        digests.append(simulation.trace.digest())
    assert digests[0] == digests[1]
