"""Small appends that come in one turn of the event loop are written together, before any of their responses leaves."""

from __future__ import annotations

import asyncio
import errno
import struct
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.base.errors import ErrorCode
from kwire.base.metrics import TIMES_MAX
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.protocol import ApiKey
from kwire.codec.records import Record, build_batch
from kwire.net.outgoing import Outgoing
from kwire.server.broker import Broker
from tests.server.conftest import Brokers

CLIENTS = 6


async def start(brokers: Brokers) -> tuple[Broker, list[RawClient]]:
    """A broker with topic t, and clients that have each sent a request."""
    broker = await brokers.start()
    clients = [await brokers.connect(broker) for _ in range(CLIENTS)]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await clients[0].call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
    for client in clients:
        await client.call(produce(), 9)
    return broker, clients


def produce(size: int = 10, acks: int = -1) -> ProduceRequest:
    records = build_batch([Record(timestamp=0, key=None, value=bytes(size))])
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def end_offset() -> ListOffsetsRequest:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    return ListOffsetsRequest(topics=[topic])


def outcome(response: Any) -> Any:
    (part,) = response.responses[0].partition_responses
    return ErrorCode(part.error_code).name if part.error_code else part.base_offset


def spied(broker: Broker, monkeypatch: pytest.MonkeyPatch, events: list[str], error: OSError | None = None) -> None:
    """Note each write of a log and each sending of responses; or have writes fail."""
    pwrite, flush = broker.doors.files.pwrite, Outgoing.flush

    def write(fd: int, data: Any, position: int) -> int:
        events.append("write")
        if error is not None:
            raise error
        return pwrite(fd, data, position)

    def send(outgoing: Outgoing) -> bool:
        if outgoing.size:
            events.append("send")
        return flush(outgoing)

    monkeypatch.setattr(broker.doors.files, "pwrite", write)
    monkeypatch.setattr(Outgoing, "flush", send)


async def test_appends_of_one_turn_are_written_together_before_their_responses(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, clients = await start(brokers)
    events: list[str] = []
    with monkeypatch.context() as patch:
        spied(broker, patch, events)
        responses = await asyncio.gather(*(client.call(produce(), 9) for client in clients))
    assert sorted(outcome(each) for each in responses) == list(range(CLIENTS, 2 * CLIENTS))
    assert events[0] == "write" and events.count("send") == CLIENTS
    assert events.count("write") <= CLIENTS // 2


async def test_a_request_behind_an_append_finds_it_done(brokers: Brokers) -> None:
    _, clients = await start(brokers)
    for client in clients:
        first, behind = await asyncio.gather(client.call(produce(), 9), client.call(end_offset(), 7))
        assert behind.topics[0].partitions[0].offset == outcome(first) + 1
        part = FetchPartition(partition=0, fetch_offset=outcome(first) + 1, partition_max_bytes=1 << 20)
        fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[part])])
        third, fetched = await asyncio.gather(client.call(produce(), 9), client.call(fetch, 11))
        assert outcome(third) == outcome(first) + 1
        assert fetched.responses[0].partitions[0].records


async def test_responses_behind_appends_keep_their_order(brokers: Brokers) -> None:
    _, clients = await start(brokers)
    for client in clients:
        for behind, version in ((ApiVersionsRequest(), 2), (MetadataRequest(topics=[]), 12), (end_offset(), 7)):
            first, _, last = await asyncio.gather(
                client.call(produce(), 9), client.call(behind, version), client.call(produce(), 9)
            )
            assert outcome(last) == outcome(first) + 1
        first = client.post(produce(), 9)
        unknown = client.post_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 999, -7, -1), ApiKey.API_VERSIONS, 0)
        last = client.post(produce(), 9)
        assert (await unknown).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert outcome(await last) == outcome(await first) + 1


async def test_times_of_requests_are_counted_before_there_are_too_many(brokers: Brokers) -> None:
    broker, clients = await start(brokers)
    requests = broker.services.metrics.requests("Produce")
    for at_once in (1, CLIENTS):
        before, most = requests.versions.get(9, 0), 0
        for _ in range(TIMES_MAX):
            await asyncio.gather(*(client.call(produce(), 9) for client in clients[:at_once]))
            most = max(most, len(requests.times_of(9)))
        assert 0 < most < TIMES_MAX
        assert requests.versions[9] > before


async def test_small_and_large_appends_of_one_connection_keep_their_order(brokers: Brokers) -> None:
    _, clients = await start(brokers)
    sizes = [10, 9000, 10, 10, 9000, 10]
    for client in clients:
        responses = await asyncio.gather(*(client.call(produce(size), 9) for size in sizes))
        found = [outcome(each) for each in responses]
        assert found == list(range(found[0], found[0] + len(sizes)))


async def test_a_failed_write_fails_all_requests_and_no_connection(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, clients = await start(brokers)
    with monkeypatch.context() as patch:
        spied(broker, patch, [], OSError(errno.ENOSPC, "full"))
        responses = await asyncio.gather(*(client.call(produce(), 9) for client in clients))
    assert {outcome(each) for each in responses} == {"KAFKA_STORAGE_ERROR"}
    responses = await asyncio.gather(*(client.call(produce(), 9) for client in clients))
    assert sorted(outcome(each) for each in responses) == list(range(CLIENTS, 2 * CLIENTS))


async def test_an_unexpected_failure_closes_the_connections_concerned(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, clients = await start(brokers)
    log = broker.replicas.partition("t", 0).log
    with monkeypatch.context() as patch:
        patch.setattr(log, "append_together", None)
        found = await asyncio.gather(*(client.call(produce(), 9) for client in clients), return_exceptions=True)
    assert any(isinstance(each, Exception) for each in found)
    other = await brokers.connect(broker)
    assert outcome(await other.call(produce(), 9)) >= CLIENTS
