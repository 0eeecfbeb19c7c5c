"""Consumers read from the replica in their rack (KIP-392), and from any follower that they ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode
from kwire.cluster.replication.partition import Partition
from kwire.codec.messages.create_topics_request import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from tests.server.cluster import Cluster

LEADER, NEAR = 1, 2
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Racks:
    """Broker 1 in rack one leads a topic, broker 2 in rack two follows."""

    def __init__(self, cluster: Cluster, leader: RawClient, near: RawClient) -> None:
        self.cluster = cluster
        self.clients = {LEADER: leader, NEAR: near}

    def partition(self, broker: int) -> Partition:
        found = self.cluster.brokers[broker].replicas.get("t", 0)
        assert found is not None
        return found

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def write(self) -> None:
        """One record, which both have and know to be committed."""
        batch = build_batch([Record(offset=0, timestamp=1, key=None, value=b"v")])
        data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        )
        response = await self.clients[LEADER].call(request, 9)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        end = self.partition(LEADER).log_end_offset
        await self.until(lambda: self.partition(NEAR).high_watermark == end)

    async def fetch(
        self, broker: int, rack: str = "", *, offset: int = 0, version: int = 12, epoch: int = -1, wait_ms: int = 0
    ) -> Any:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000, current_leader_epoch=epoch)
        topics = [FetchTopic(topic="t", partitions=[asked])]
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1000, topics=topics, rack_id=rack)
        return (await self.clients[broker].call(request, version)).responses[0].partitions[0]


@pytest.fixture
async def racks(cluster: Cluster) -> Racks:
    clients = [
        await cluster.start(broker, broker_rack=rack, replica_selector_class=SELECTOR)
        for broker, rack in ((LEADER, "one"), (NEAR, "two"))
    ]
    made = Racks(cluster, *clients)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, NEAR])
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    await made.clients[LEADER].call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    await made.write()
    return made


async def test_the_leader_sends_a_consumer_to_the_replica_in_its_rack(racks: Racks) -> None:
    told = await racks.fetch(LEADER, "two")
    assert (told.preferred_read_replica, told.error_code, told.high_watermark) == (NEAR, ErrorCode.NONE, 1)
    assert not told.records
    given = await racks.fetch(NEAR, "two")
    assert (given.preferred_read_replica, given.error_code, given.high_watermark) == (-1, ErrorCode.NONE, 1)
    assert given.records


@pytest.mark.parametrize(("rack", "version"), [("one", 12), ("", 12), ("three", 12), ("two", 10)])
async def test_the_leader_serves_everybody_else(racks: Racks, rack: str, version: int) -> None:
    given = await racks.fetch(LEADER, rack, version=version)
    assert given.preferred_read_replica == -1
    assert given.records


async def test_a_consumer_is_not_sent_to_a_replica_that_lacks_its_offset(racks: Racks) -> None:
    await racks.cluster.brokers[NEAR].replicas._fetchers.close()
    racks.partition(LEADER).append(
        memoryview(bytearray(build_batch([Record(offset=0, timestamp=1, key=None, value=b"w")]))), required_acks=1
    )
    assert (await racks.fetch(LEADER, "two", offset=1)).preferred_read_replica == NEAR
    told = await racks.fetch(LEADER, "two", offset=2)
    assert (told.preferred_read_replica, told.error_code) == (-1, ErrorCode.NONE)


async def test_only_leaders_serve_consumers_of_before(racks: Racks) -> None:
    assert (await racks.fetch(NEAR, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_beyond_the_end_of_a_followers_log_is_out_of_range(racks: Racks) -> None:
    assert (await racks.fetch(NEAR, offset=1)).error_code == ErrorCode.NONE
    assert (await racks.fetch(NEAR, offset=2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_between_the_high_watermark_and_the_end_there_is_nothing_yet(racks: Racks) -> None:
    for broker in (LEADER, NEAR):
        racks.partition(broker).log.high_watermark = 0
        told = await racks.fetch(broker, offset=1)
        assert (told.error_code, told.high_watermark, bool(told.records)) == (ErrorCode.NONE, 0, False)
        assert not (await racks.fetch(broker, offset=0)).records


async def test_an_epoch_that_a_follower_does_not_know_is_told(racks: Racks) -> None:
    epoch = racks.partition(NEAR).leader_epoch
    assert (await racks.fetch(NEAR, epoch=epoch)).error_code == ErrorCode.NONE
    assert (await racks.fetch(NEAR, epoch=epoch + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_consumer_that_waits_at_a_follower_is_woken_by_what_becomes_committed(racks: Racks) -> None:
    waiting = asyncio.ensure_future(racks.fetch(NEAR, offset=1, wait_ms=600_000))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await racks.write()
    given = await asyncio.wait_for(waiting, PATIENCE_S)
    assert given.high_watermark == 2
    assert given.records


async def test_a_fenced_follower_serves_nobody(racks: Racks) -> None:
    racks.cluster.brokers[NEAR].replicas.fence()
    assert (await racks.fetch(NEAR)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_a_leader_that_may_not_know_all_that_is_committed_does_not_tell_the_end(
    racks: Racks, version: int, error: ErrorCode
) -> None:
    racks.partition(LEADER)._epoch_start = 2  # as if it had taken over with a record more
    answers = {}
    for timestamp in (-1, -2, 0, 10**15):
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        response = await racks.clients[LEADER].call(request, version)
        part = response.topics[0].partitions[0]
        answers[timestamp] = part.offset if not part.error_code else ErrorCode(part.error_code)
    assert answers == {-1: error, -2: 0, 0: 0, 10**15: error}
