"""``kwire adopt``: a data directory that came from elsewhere is taken in and then served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from campaigns.adoption.kraft_files import SNAPSHOT_HEADER, batch, control, some_of_everything, user, write
from harness.raw_client import RawClient
from kwire.base.addresses import parse_address
from kwire.base.doors import Doors
from kwire.cluster.kraft.metadata_log import METADATA_DIRECTORY
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
    result = kwire_command.run("adopt", "data", "--without-security")
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
    kwire_command.run("adopt", "data", "--without-security")
    again = kwire_command.run("adopt", "data")
    assert again.returncode == 0
    assert "topics=0" in again.stdout


def test_what_is_no_data_directory_is_refused_and_left_alone(kwire_command: Command) -> None:
    (kwire_command.directory / "data").mkdir()
    result = kwire_command.run("adopt", "data")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert list((kwire_command.directory / "data").iterdir()) == []


KAFKA_PROPERTIES = """authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listeners=PLAINTEXT://127.0.0.1:0
"""


@pytest.fixture
def kafka_directory(kwire_command: Command) -> Path:
    """A directory with the topic old, and Kafka's metadata of node 7."""
    data = kwire_command.directory / "data"
    asyncio.run(write_logs(data))
    (kwire_command.directory / "kafka.properties").write_text(KAFKA_PROPERTIES)
    return write(data, log_0=batch(0, *some_of_everything()))


def test_without_the_metadata_log_nobody_knows_whether_a_cluster_was_open(kwire_command: Command) -> None:
    asyncio.run(write_logs(kwire_command.directory / "data"))
    refused = kwire_command.run("adopt", "data")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert f"it has no {METADATA_DIRECTORY}" in refused.stderr


@pytest.mark.usefixtures("kafka_directory")
def test_a_cluster_with_acls_is_adopted_with_an_authorizer_only(kwire_command: Command) -> None:
    refused = kwire_command.run("adopt", "data")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "it has ACLs (1), and the configuration names no authorizer.class.name" in refused.stderr
    started = kwire_command.run("start", "--data-dir", "data", "--listen", "127.0.0.1:0")
    assert started.returncode == 1
    assert "first run kwire adopt" in started.stderr
    done = kwire_command.run("adopt", "data", "--config", "kafka.properties")
    assert done.returncode == 0, done.stderr
    assert "ACLs: 1 (User:alice)" in done.stdout
    listed = kwire_command.run("acl", "list", "--data-dir", "data")
    assert "User:alice" in listed.stdout


@pytest.mark.usefixtures("kafka_directory")
def test_no_password_is_printed(kwire_command: Command) -> None:
    refused = kwire_command.run("adopt", "data", "--config", "kafka.properties", "--set", "node.id=1")
    assert refused.stderr == "kwire: node.id=1: data belongs to node 7\n"
    done = kwire_command.run("adopt", "data", "--config", "kafka.properties")
    assert "top secret" not in done.stdout + done.stderr


def test_what_cannot_be_read_is_named_in_one_line(kwire_command: Command, kafka_directory: Path) -> None:
    write(kafka_directory, snapshot_5=control(0, SNAPSHOT_HEADER) + batch(1, user()))
    refused = kwire_command.run("adopt", "data", "--config", "kafka.properties")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "is not a complete snapshot" in refused.stderr
