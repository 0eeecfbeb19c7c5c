"""``kwire adopt``: a data directory that came from elsewhere is taken in and then served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from harness.raw_client import RawClient
from kwire.base.addresses import parse_address
from kwire.base.doors import Doors
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from kwire.server.broker import Broker
from tests.cli.conftest import Command


async def write_logs(directory: Path) -> bytes:
    """Logs and `meta.properties` of node 7, without a metadata store; the topic's id."""
    properties: dict[str, Any] = {"log_dir": directory, "listeners": "PLAINTEXT://127.0.0.1:0", "node_id": 7}
    async with Broker(store=MemoryStore(), **properties) as broker:
        address = parse_address(broker.bootstrap_servers)
        async with await RawClient.connect(Doors(), *address) as client:
            topic = CreatableTopic(name="old", num_partitions=2, replication_factor=1)
            created = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
            batch = build_batch([Record(offset=0, timestamp=1, key=None, value=b"from elsewhere")])
            data = PartitionProduceData(index=1, records=memoryview(bytearray(batch)))
            request = ProduceRequest(
                acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name="old", partition_data=[data])]
            )
            answer = await client.call(request, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            topic_id: bytes = created.topics[0].topic_id
            return topic_id


async def look(host: str, port: int) -> tuple[Any, Any]:
    async with await RawClient.connect(Doors(), host, port) as client:
        metadata = await client.call(MetadataRequest(topics=None), 12)
        partition = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=10_000)
        request = FetchRequest(
            max_wait_ms=100, max_bytes=10_000, topics=[FetchTopic(topic="old", partitions=[partition])]
        )
        return metadata, await client.call(request, 12)


def test_an_adopted_directory_is_served_under_its_own_ids(kwire_command: Command) -> None:
    topic_id = asyncio.run(write_logs(kwire_command.directory / "data"))
    (kwire_command.directory / "data" / "not-a-partition-x").mkdir()
    result = kwire_command.run("adopt", "data")
    assert result.returncode == 0, result.stderr
    assert "topics=1 partitions=2" in result.stdout
    assert "left out: not-a-partition-x" in result.stderr
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
    metadata, fetched = asyncio.run(look(process.host, process.port))
    process.stop()
    assert metadata.brokers[0].node_id == 7
    assert [(topic.name, topic.topic_id) for topic in metadata.topics] == [("old", topic_id)]
    assert b"from elsewhere" in bytes(fetched.responses[0].partitions[0].records)


def test_adopting_twice_takes_in_nothing_more(kwire_command: Command) -> None:
    asyncio.run(write_logs(kwire_command.directory / "data"))
    kwire_command.run("adopt", "data")
    again = kwire_command.run("adopt", "data")
    assert again.returncode == 0
    assert "topics=0" in again.stdout


def test_what_is_no_data_directory_is_refused_and_left_alone(kwire_command: Command) -> None:
    (kwire_command.directory / "data").mkdir()
    result = kwire_command.run("adopt", "data")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert list((kwire_command.directory / "data").iterdir()) == []
