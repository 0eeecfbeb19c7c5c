"""The scenario of the simulation's tests: one broker and scripted clients. Run as a program it prints its trace's hash.

python -m tests.simulation.scenario SEED VIRTUAL_SECONDS
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from harness.raw_client import RawClient
from harness.simulation import Simulation
from kwire.base.config import KafkaConfig
from kwire.base.errors import ErrorCode
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_records
from kwire.server.broker import Broker

TOPIC = "orders"
PARTITIONS = 3
FETCH_VERSION = 12


def config() -> KafkaConfig:
    return KafkaConfig(
        {"log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092", "offsets.topic.num.partitions": "3"}
    )


async def create_topic(client: RawClient) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    response = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response
    while True:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        metadata = await client.call(asked, 12)
        if all(partition.leader_id == 1 for partition in metadata.topics[0].partitions):
            return
        await asyncio.sleep(0.01)


async def produce(simulation: Simulation, name: str, sent: dict[int, list[bytes]], until_s: float) -> None:
    """Send small batches to one partition after the other, with pauses, until the time is over."""
    machine = simulation.machine(name)
    random = simulation.random(f"{name} script")
    client = await machine.connect("broker:9092")
    count = 0
    while simulation.elapsed_s < until_s:
        partition = random.randrange(PARTITIONS)
        values = [f"{name}-{count + n}".encode() * random.randrange(1, 50) for n in range(random.randrange(1, 20))]
        count += len(values)
        records = [Record(offset=n, timestamp=simulation.time_ms(), key=None, value=v) for n, v in enumerate(values)]
        data = PartitionProduceData(index=partition, records=memoryview(bytearray(build_batch(records))))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        response = await client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 11)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE, answer
        sent[partition].extend(values)
        await asyncio.sleep(random.uniform(0.05, 0.4))
    client.close()


async def consume(simulation: Simulation, name: str, expected: dict[int, list[bytes]], done: asyncio.Event) -> Any:
    """Read all partitions with long polls until everything that was acknowledged has come; the values by partition."""
    client = await simulation.machine(name).connect("broker:9092")
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    got: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    while not done.is_set() or any(len(got[p]) < len(expected[p]) for p in got):
        asked = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=50_000) for p, o in offsets.items()]
        topics = [FetchTopic(topic=TOPIC, partitions=asked)]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1_000_000, topics=topics)
        response = await client.call(request, FETCH_VERSION)
        for topic in response.responses:
            for partition in topic.partitions:
                for record in iter_batches(partition.records):
                    if record.offset >= offsets[partition.partition_index]:
                        got[partition.partition_index].append(bytes(record.value))
                        offsets[partition.partition_index] = record.offset + 1
    client.close()
    return got


def iter_batches(records: Any) -> Any:
    from kwire.codec.records import iter_headers

    view = memoryview(records or b"")
    for position, header in iter_headers(view):
        yield from iter_records(view[position : position + header.size], max_bytes=1 << 20)


async def one_broker(simulation: Simulation, virtual_s: float) -> dict[int, list[bytes]]:
    """Producers and a consumer at work for so many virtual seconds; what was produced, once it has been read."""
    machine = simulation.machine("broker")
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    async with Broker(config(), doors=machine.doors, store=MemoryStore()) as broker:
        assert broker.bootstrap_servers == "broker:9092"
        async with await simulation.machine("admin").connect("broker:9092") as admin:
            await create_topic(admin)
        done = asyncio.Event()
        reading = asyncio.ensure_future(consume(simulation, "consumer", sent, done))
        await asyncio.gather(*(produce(simulation, f"producer-{n}", sent, virtual_s) for n in range(2)))
        done.set()
        got = await reading
    assert {p: sorted(values) for p, values in got.items()} == {p: sorted(values) for p, values in sent.items()}
    return sent


def run(seed: int, virtual_s: float, keep: int = 0) -> Simulation:
    simulation = Simulation(seed, keep)
    simulation.run(one_broker(simulation, virtual_s))
    return simulation


if __name__ == "__main__":
    print(run(int(sys.argv[1]), float(sys.argv[2])).trace.digest())
