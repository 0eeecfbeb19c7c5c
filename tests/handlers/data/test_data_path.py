"""Produce, Fetch and ListOffsets on a real broker in this process: waiting, limits, failures, released file ranges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.base.file_range import FileRange
from kwire.base.futures import resolved
from kwire.cluster.replication.partition import Partition
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_headers
from kwire.handlers.api import CloseConnection
from kwire.handlers.context import RequestContext
from kwire.handlers.data import list_offsets
from kwire.handlers.data.fetch import handler as fetch
from kwire.handlers.data.produce import handler as produce
from kwire.handlers.topics import create_topics
from kwire.server.broker import Broker

NOW_MS = 1_790_000_000_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)], timeout_ms=5000
        )
        response = await call(create_topics, request, broker, 7)
        assert response.topics[0].error_code == 0, response
        yield broker


async def call(module: Any, request: Any, broker: Broker, version: int) -> Any:
    context = RequestContext(broker.services, api_key=int(module.API.key), api_version=version)
    return await resolved(module.API.handle(request, context))


def batch(*values: bytes) -> memoryview:
    return memoryview(bytearray(build_batch([Record(timestamp=NOW_MS, value=value) for value in values])))


async def send(broker: Broker, *values: bytes, index: int = 0, acks: int = -1, timeout_ms: int = 1000) -> Any:
    data = PartitionProduceData(index=index, records=batch(*values))
    request = ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    response = await call(produce, request, broker, 9)
    return response and response.responses[0].partition_responses[0]


def fetch_request(*indexes: int, offset: int = 0, limit: int = 1 << 20, **options: Any) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit) for index in indexes or (0,)
    ]
    fields = {"max_wait_ms": 5000, "min_bytes": 1, "max_bytes": 1 << 22, "session_epoch": -1, **options}
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=partitions)], **fields)


def start_fetch(broker: Broker, request: FetchRequest) -> Any:
    return fetch.API.handle(request, RequestContext(broker.services, api_key=1, api_version=12))


def partition_of(broker: Broker, index: int = 0) -> Partition:
    return broker.replicas.partition("t", index)


def contents(broker: Broker, data: Any) -> bytes:
    """The records of one partition in a response, read from the file if they are a range of it, which is released."""
    if isinstance(data.records, FileRange):
        found = broker.doors.files.pread(data.records.fd, data.records.size, data.records.position)
        data.records.release()
        return found
    return bytes(data.records)


async def test_a_waiting_fetch_is_a_bare_future_that_an_append_ends(broker: Broker) -> None:
    waiting = start_fetch(broker, fetch_request(0, 1, 2))
    assert isinstance(waiting, asyncio.Future)
    assert not isinstance(waiting, asyncio.Task), "an idle consumer costs no task"
    await send(broker, b"news", index=1)
    response = await asyncio.wait_for(waiting, 20)
    sizes = [len(contents(broker, data)) for data in response.responses[0].partitions]
    assert [size > 0 for size in sizes] == [False, True, False]


async def test_a_fetch_waits_until_min_bytes_are_there(broker: Broker) -> None:
    size = len(batch(b"x" * 100))
    waiting = start_fetch(broker, fetch_request(min_bytes=2 * size + 1))
    for _ in range(2):
        await send(broker, b"x" * 100)
        await asyncio.sleep(0.01)
        assert not waiting.done()
    await send(broker, b"x" * 100)
    response = await asyncio.wait_for(waiting, 20)
    assert len(contents(broker, response.responses[0].partitions[0])) == 3 * size


async def test_a_cancelled_fetch_stops_watching(broker: Broker) -> None:
    waiting = start_fetch(broker, fetch_request(0, 1))
    waiting.cancel()
    await asyncio.sleep(0)
    assert not partition_of(broker, 0)._listeners
    assert not partition_of(broker, 1)._listeners
    await send(broker, b"nobody listens")


async def test_a_fetch_ends_after_max_wait_ms(broker: Broker) -> None:
    started = asyncio.get_running_loop().time()
    response = await start_fetch(broker, fetch_request(max_wait_ms=50))
    assert asyncio.get_running_loop().time() - started >= 0.05
    assert response.responses[0].partitions[0].records == b""
    assert not partition_of(broker)._listeners


async def test_a_follower_of_idle_partitions_waits_though_none_of_them_is_read(broker: Broker) -> None:
    lose_follower(partition_of(broker))
    replica = {"replica_id": FOLLOWER, "max_wait_ms": 0, "session_epoch": 0}
    opened = start_fetch(broker, fetch_request(**replica))
    session = {"replica_id": FOLLOWER, "session_id": opened.session_id}
    for epoch in (1, 2):
        idle = fetch_request(**session, session_epoch=epoch, max_wait_ms=0)
        idle.topics = []
        assert start_fetch(broker, idle).responses == []
    idle = fetch_request(**session, session_epoch=3)
    idle.topics = []
    waiting = start_fetch(broker, idle)
    assert asyncio.isfuture(waiting)
    await send(broker, b"v", acks=1)
    response = await asyncio.wait_for(waiting, 20)
    assert [each.partition_index for each in response.responses[0].partitions] == [0]


async def test_the_deletion_of_a_topic_ends_a_waiting_fetch(broker: Broker) -> None:
    from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
    from kwire.handlers.topics import delete_topics

    waiting = start_fetch(broker, fetch_request())
    await call(delete_topics, DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), broker, 4)
    response = await asyncio.wait_for(waiting, 20)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_all_partitions_of_a_produce_request_are_in_one_response(broker: Broker) -> None:
    waiting = start_fetch(broker, fetch_request(0, 1, 2))
    data = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(3)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    await call(produce, request, broker, 9)
    response = await asyncio.wait_for(waiting, 20)
    assert all(contents(broker, data) for data in response.responses[0].partitions)


async def test_large_reads_are_ranges_of_the_file_and_whole_batches_come_back(broker: Broker) -> None:
    for number in range(20):
        await send(broker, bytes([number]) * 10_000)
    response = start_fetch(broker, fetch_request())
    data = response.responses[0].partitions[0]
    assert isinstance(data.records, FileRange)
    headers = [header for _, header in iter_headers(contents(broker, data))]
    assert [header.base_offset for header in headers] == list(range(20))


async def test_nothing_above_the_high_watermark_is_read(broker: Broker) -> None:
    partition = partition_of(broker)
    await send(broker, b"committed")
    lose_follower(partition)
    await send(broker, b"not yet", acks=1)
    response = start_fetch(broker, fetch_request(offset=0))
    data = response.responses[0].partitions[0]
    assert (data.high_watermark, partition.log_end_offset) == (1, 2)
    assert [header.last_offset for _, header in iter_headers(contents(broker, data))] == [0]


async def test_acks_all_responds_when_the_high_watermark_passes(broker: Broker) -> None:
    partition = partition_of(broker)
    lose_follower(partition)
    sending = asyncio.ensure_future(send(broker, b"v"))
    await asyncio.sleep(0.01)
    assert not sending.done()
    partition.follower_at(FOLLOWER, 1)
    result = await asyncio.wait_for(sending, 20)
    assert (result.error_code, result.base_offset) == (0, 0)


async def test_acks_all_times_out_when_a_replica_does_not_follow(broker: Broker) -> None:
    lose_follower(partition_of(broker))
    result = await send(broker, b"v", timeout_ms=30)
    assert (result.error_code, result.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)


async def test_acks_all_needs_the_least_number_of_in_sync_replicas(broker: Broker) -> None:
    partition = partition_of(broker)
    lose_follower(partition, isr=False)
    partition.set_min_isr(2)
    assert (await send(broker, b"v")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await send(broker, b"v", acks=1)).error_code == 0


FOLLOWER = 99


def lose_follower(partition: Partition, isr: bool = True) -> None:
    """Give the partition a second replica that never fetches; in the ISR or not."""
    from kwire.cluster.store.keys import PartitionState

    state = {name: getattr(partition, name) for name in ("leader", "leader_epoch", "partition_epoch")}
    replicas = (partition.leader, FOLLOWER)
    state.update(partition_epoch=partition.partition_epoch + 1, replicas=replicas)
    partition.update(PartitionState(**state, isr=replicas if isr else replicas[:1]))


async def test_acks_0_has_no_response_and_a_failure_closes_the_connection(broker: Broker) -> None:
    assert await send(broker, b"v", acks=0) is None
    assert partition_of(broker).log_end_offset == 1
    with pytest.raises(CloseConnection):
        await send(broker, b"v", acks=0, index=7)


async def test_metrics_count_messages_bytes_and_requests(broker: Broker) -> None:
    metrics = broker.metrics.topic("t")
    await send(broker, b"a", b"b")
    await send(broker, b"c", index=9)
    response = start_fetch(broker, fetch_request())
    size = len(contents(broker, response.responses[0].partitions[0]))
    assert (metrics.messages_in, metrics.bytes_in, metrics.bytes_out) == (2, size, size)
    assert (metrics.total_produce_requests, metrics.total_fetch_requests) == (1, 1)


async def test_list_offsets_depends_on_isolation_level_and_replica_id(broker: Broker) -> None:
    await send(broker, b"committed")
    lose_follower(partition_of(broker))
    await send(broker, b"not yet", acks=1)

    async def latest(replica_id: int) -> int:
        asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        response = await call(list_offsets, ListOffsetsRequest(replica_id=replica_id, topics=[asked]), broker, 7)
        return int(response.topics[0].partitions[0].offset)

    assert (await latest(-1), await latest(-2)) == (1, 2)
