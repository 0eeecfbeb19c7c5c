"""Requests of clients with quotas: throttle times in responses, and connections that are muted (KIP-219).

A muted connection stays muted for hours here: that nothing comes is seen by what another connection gets.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from kwire.codec.records import Record, build_batch
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.quotas.entities import CLIENT_ID, QuotaEntity
from kwire.quotas.limits import ClientLimits
from kwire.server.broker import Broker
from tests.server.conftest import Brokers

FETCH_BY_NAME = 12


async def start(brokers: Brokers) -> tuple[Broker, RawClient]:
    """A broker with topic t, and a client without a limit."""
    broker = await brokers.start()
    client = await brokers.connect(broker, client_id="free")
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
    return broker, client


def limit(broker: Broker, key: str, value: float) -> None:
    quotas = {QuotaEntity.of({CLIENT_ID: "test"}): {key: value}}
    broker.services.quotas.limit_by(ClientLimits(quotas))


def produce(acks: int = 1) -> ProduceRequest:
    records = build_batch([Record(timestamp=0, key=None, value=bytes(10_000))])
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(**options: Any) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[part])]
    return FetchRequest(**{"max_bytes": 1 << 20, "min_bytes": 1, "topics": topics, **options})


async def end_offset(client: RawClient) -> int:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    response = await client.call(ListOffsetsRequest(topics=[topic]), 8)
    offset: int = response.topics[0].partitions[0].offset
    return offset


@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_a_producer_over_its_limit_gets_its_response_and_is_muted(brokers: Brokers, version: int) -> None:
    broker, free = await start(brokers)
    limit(broker, "producer_byte_rate", 0.5)
    client = await brokers.connect(broker)
    response = await client.call(produce(), version)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert response.throttle_time_ms > 10_000_000
    waiting = client.post(produce(), version)
    assert (await free.call(produce(), version)).throttle_time_ms == 0
    assert await end_offset(free) == 2
    assert not waiting.done()
    waiting.cancel()


async def test_acks_0_mutes_the_connection_too(brokers: Brokers) -> None:
    broker, free = await start(brokers)
    limit(broker, "producer_byte_rate", 0.5)
    client = await brokers.connect(broker)
    client.send_only(produce(acks=0), 9)
    while not await end_offset(free):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0)
    client.send_only(produce(acks=0), 9)
    waiting = client.post(MetadataRequest(topics=[]), 12)
    await free.call(MetadataRequest(topics=[]), 12)
    assert await end_offset(free) == 1
    assert not waiting.done()
    waiting.cancel()


async def test_a_muted_connection_goes_on_when_the_throttle_time_has_passed(brokers: Brokers) -> None:
    broker, _ = await start(brokers)
    limit(broker, "producer_byte_rate", 1000)
    client = await brokers.connect(broker)
    before = asyncio.get_running_loop().time()
    throttled = await client.call(produce(), 9)
    await client.call(MetadataRequest(topics=[]), 12)
    assert 0 < throttled.throttle_time_ms < 1000
    assert asyncio.get_running_loop().time() - before > throttled.throttle_time_ms / 1000 - 0.01


@pytest.mark.parametrize("epoch", [-1, 0])
async def test_a_throttled_consumer_gets_an_empty_response_and_no_session(brokers: Brokers, epoch: int) -> None:
    broker, free = await start(brokers)
    await free.call(produce(), 9)
    limit(broker, "consumer_byte_rate", 0.5)
    response = await (await brokers.connect(broker)).call(fetch(session_epoch=epoch), FETCH_BY_NAME)
    assert (response.responses, response.session_id, len(broker.services.fetch_sessions)) == ([], 0, 0)
    assert response.throttle_time_ms > 10_000_000
    limit(broker, "consumer_byte_rate", 1_000_000)
    response = await (await brokers.connect(broker)).call(fetch(session_epoch=epoch), FETCH_BY_NAME)
    assert len(response.responses[0].partitions[0].records) > 10_000
    assert response.throttle_time_ms == 0


async def test_a_follower_is_not_throttled(brokers: Brokers) -> None:
    broker, free = await start(brokers)
    await free.call(produce(), 9)
    limit(broker, "consumer_byte_rate", 0.5)
    limit(broker, "request_percentage", 0.000001)
    client = await brokers.connect(broker)
    for _ in range(3):
        request = fetch(replica_state=ReplicaState(replica_id=7, replica_epoch=-1))
        assert (await client.call(request, 15)).throttle_time_ms == 0


async def test_a_refused_request_of_brokers_is_charged_to_its_client(brokers: Brokers) -> None:
    broker = await brokers.start(authorizer=AclAuthorizer())
    limit(broker, "request_percentage", 0.000001)
    client = await brokers.connect(broker)
    marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=[])
    await client.call(WriteTxnMarkersRequest(markers=[marker]), 1)
    shown = broker.metrics.snapshot()["kafka.server:type=Request,client-id=test"]
    assert shown["request-time"] > 0
    assert shown["throttle-time"] == 1000


async def test_time_is_limited_by_one_window(brokers: Brokers) -> None:
    broker, _ = await start(brokers)
    limit(broker, "request_percentage", 0.000001)
    response = await (await brokers.connect(broker)).call(MetadataRequest(topics=[]), 12)
    assert response.throttle_time_ms == 1000
    shown = broker.metrics.snapshot()["kafka.server:type=Request,client-id=test"]
    assert shown["request-time"] > 0
    assert shown["throttle-time"] == 1000


async def test_the_fast_path_is_taken_with_quotas(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, _ = await start(brokers)
    limit(broker, "producer_byte_rate", 1_000_000)
    client = await brokers.connect(broker)
    await client.call(produce(), 9)
    monkeypatch.setattr("kwire.server.dispatch.decode", None)
    assert (await client.call(produce(), 9)).throttle_time_ms == 0
