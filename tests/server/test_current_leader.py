"""Who asks the wrong broker is told the right one in the same answer (KIP-951)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from tests.server.cluster import Cluster

LEADER, OTHER = 1, 2


class Pair:
    """Two brokers, and a topic of two partitions that the first one leads."""

    def __init__(self, cluster: Cluster, leader: RawClient, other: RawClient) -> None:
        self.cluster = cluster
        self.clients = {LEADER: leader, OTHER: other}

    @property
    def topic_id(self) -> bytes:
        return self.cluster.brokers[LEADER].metadata.image.topics["t"].id

    async def produce(self, broker: int, version: int, partitions: int = 1, acks: int = 1) -> Any:
        batch = build_batch([Record(offset=0, timestamp=1, key=None, value=b"v")])
        data = [PartitionProduceData(index=index, records=memoryview(bytearray(batch))) for index in range(partitions)]
        topic = TopicProduceData(name="t", partition_data=data)
        if version >= 13:
            topic = TopicProduceData(topic_id=self.topic_id, partition_data=data)
        request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic])
        return await self.clients[broker].call(request, version)

    async def fetch(self, broker: int, version: int, epoch: int = -1, topic_id: bytes = b"") -> Any:
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch)
        topic = FetchTopic(topic_id=topic_id or self.topic_id, partitions=[asked])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic])
        return await self.clients[broker].call(request, version)

    def told(self, response: Any, part: Any) -> list[Any]:
        """Error, leader, epoch, and where the leader is."""
        nodes = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
        leader = part.current_leader
        return [ErrorCode(part.error_code).name, leader.leader_id, leader.leader_epoch, nodes]

    def told_of(self, error: str, epoch: int = 0) -> list[Any]:
        return [error, LEADER, epoch, [(LEADER, "127.0.0.1", self.cluster.port(LEADER))]]


@pytest.fixture
async def pair(cluster: Cluster) -> Pair:
    made = Pair(cluster, await cluster.start(LEADER), await cluster.start(OTHER))
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=each, broker_ids=replicas) for each in range(2)],
        )
        for name, replicas in (("t", [LEADER, OTHER]), ("alone", [LEADER]))
    ]
    await made.clients[OTHER].call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    return made


@pytest.mark.parametrize("version", [10, 13])
@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_producer_is_told_the_leader(pair: Pair, version: int, partitions: int) -> None:
    response = await pair.produce(OTHER, version, partitions)
    for part in response.responses[0].partition_responses:
        assert pair.told(response, part) == pair.told_of("NOT_LEADER_OR_FOLLOWER")


async def test_older_versions_have_no_room_for_it(pair: Pair) -> None:
    response = await pair.produce(OTHER, 9)
    (part,) = response.responses[0].partition_responses
    assert pair.told(response, part) == ["NOT_LEADER_OR_FOLLOWER", -1, -1, []]
    response = await pair.fetch(OTHER, 15)
    (part,) = response.responses[0].partitions
    assert pair.told(response, part)[3] == []


async def test_a_consumer_is_told_the_leader(pair: Pair) -> None:
    alone = pair.cluster.brokers[OTHER].metadata.image.topics["alone"].id
    response = await pair.fetch(OTHER, 16, topic_id=alone)
    (part,) = response.responses[0].partitions
    assert pair.told(response, part) == pair.told_of("NOT_LEADER_OR_FOLLOWER")


async def test_a_consumer_of_a_follower_is_told_its_records_and_no_leader(pair: Pair) -> None:
    await pair.produce(LEADER, 13)
    partition = pair.cluster.brokers[OTHER].replicas.get("t", 0)
    assert partition is not None
    async with asyncio.timeout(PATIENCE_S):
        while not partition.high_watermark:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    response = await pair.fetch(OTHER, 16)
    (part,) = response.responses[0].partitions
    assert pair.told(response, part) == ["NONE", -1, -1, []]
    assert part.high_watermark == 1
    assert part.records


@pytest.mark.parametrize("partitions", [1, 2])
async def test_who_waits_for_replicas_is_told_when_the_leader_changes(pair: Pair, partitions: int) -> None:
    """The follower is asked, and made to believe that it led until now."""
    other = pair.cluster.brokers[OTHER]
    replicas = [other.replicas.get("t", index) for index in range(partitions)]
    for replica in replicas:
        assert replica is not None
        replica.update(PartitionState((OTHER, LEADER), (OTHER, LEADER), OTHER, 0, 1))
    sent = asyncio.ensure_future(pair.produce(OTHER, 13, partitions, acks=-1))
    async with asyncio.timeout(PATIENCE_S):
        while not all(replica.log_end_offset for replica in replicas if replica is not None):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    for replica in replicas:
        assert replica is not None
        replica.update(PartitionState((LEADER, OTHER), (LEADER, OTHER), LEADER, 0, 2))
    response = await sent
    for part in response.responses[0].partition_responses:
        assert pair.told(response, part) == pair.told_of("NOT_LEADER_OR_FOLLOWER")


async def test_a_consumer_of_an_older_epoch_is_told_the_newer(pair: Pair) -> None:
    leader = pair.cluster.brokers[LEADER]
    replica = leader.replicas.get("t", 0)
    assert replica is not None
    replica.update(PartitionState((LEADER, OTHER), (LEADER, OTHER), LEADER, 3, 3))
    response = await pair.fetch(LEADER, 17, epoch=1)
    (part,) = response.responses[0].partitions
    assert pair.told(response, part) == pair.told_of("FENCED_LEADER_EPOCH")


async def test_a_broker_that_believes_to_lead_says_nothing(pair: Pair) -> None:
    """Fenced, it does not know who leads now."""
    pair.cluster.brokers[LEADER].replicas.fence()
    response = await pair.produce(LEADER, 13)
    (part,) = response.responses[0].partition_responses
    assert pair.told(response, part) == ["NOT_LEADER_OR_FOLLOWER", -1, -1, []]
