"""The persister reaches the coordinators of share partitions wherever they are (KIP-932)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import SHARE_STATE_TOPIC
from kwire.codec.messages import delete_share_group_state_request as deletes
from kwire.codec.messages import initialize_share_group_state_request as initializes
from kwire.codec.messages import read_share_group_state_request as reads
from kwire.codec.messages import read_share_group_state_summary_request as summaries
from kwire.codec.messages import write_share_group_state_request as writes
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.coordinator.share import persister as module
from kwire.coordinator.share.coordinator import ShareCoordinator
from kwire.server.broker import Broker
from tests.server.cluster import Cluster

PARTITIONS = 12
STATE_PARTITIONS = 6


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.001)


@pytest.fixture
async def brokers(cluster: Cluster) -> list[Broker]:
    """Three brokers, and topic t."""
    clients = [
        await cluster.start(node, share_coordinator_state_topic_num_partitions=STATE_PARTITIONS) for node in (1, 2, 3)
    ]
    started = list(cluster.brokers.values())
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    await clients[0].call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
    for broker in started:
        assert await broker.metadata.until(lambda image: image.topic("t") is not None, 10)
    return started


def topic_id(broker: Broker) -> bytes:
    topic = broker.metadata.image.topic("t")
    assert topic is not None
    return topic.id


def every(broker: Broker, request: type[Any], topic: type[Any], partition: type[Any], **fields: Any) -> Any:
    """A request for all partitions."""
    partitions = [partition(partition=index, **fields) for index in range(PARTITIONS)]
    return request(group_id="g", topics=[topic(topic_id=topic_id(broker), partitions=partitions)])


def initialize(broker: Broker, start: int) -> Any:
    kinds = (initializes.InitializeShareGroupStateRequest, initializes.InitializeStateData, initializes.PartitionData)
    return every(broker, *kinds, start_offset=start)


def summary(broker: Broker) -> Any:
    kinds = (
        summaries.ReadShareGroupStateSummaryRequest,
        summaries.ReadStateSummaryData,
        summaries.PartitionData,
    )
    return every(broker, *kinds)


def results(response: Any, *fields: str) -> list[tuple[Any, ...]]:
    """Fields of the results, in the order of the partitions."""
    found = {each.partition: each for topic in response.results for each in topic.partitions}
    assert list(found) == list(range(PARTITIONS))
    return [tuple(getattr(each, field) for field in fields) for each in found.values()]


async def test_all_five_requests_reach_every_coordinator(brokers: list[Broker]) -> None:
    """The topic of the states is created with the first one."""
    one, two, three = (broker.services.share_persister() for broker in brokers)
    assert brokers[0].metadata.image.topic(SHARE_STATE_TOPIC) is None
    assert results(await one.initialize(initialize(brokers[0], 5)), "error_code") == [(0,)] * PARTITIONS
    leaders = {state.leader for state in brokers[0].metadata.image.topics[SHARE_STATE_TOPIC].partitions}
    assert leaders == {1, 2, 3}
    read = every(brokers[1], reads.ReadShareGroupStateRequest, reads.ReadStateData, reads.PartitionData, leader_epoch=3)
    assert results(await two.read(read), "error_code", "start_offset") == [(0, 5)] * PARTITIONS
    batch = writes.StateBatch(first_offset=5, last_offset=9, delivery_state=2, delivery_count=1)
    kinds = (writes.WriteShareGroupStateRequest, writes.WriteStateData, writes.PartitionData)
    write = every(brokers[2], *kinds, leader_epoch=3, start_offset=10, delivery_complete_count=0, state_batches=[batch])
    assert results(await three.write(write), "error_code") == [(0,)] * PARTITIONS
    found = results(await one.read_summary(summary(brokers[0])), "leader_epoch", "start_offset")
    assert found == [(3, 10)] * PARTITIONS
    delete = every(brokers[1], deletes.DeleteShareGroupStateRequest, deletes.DeleteStateData, deletes.PartitionData)
    assert results(await two.delete(delete), "error_code") == [(0,)] * PARTITIONS
    assert results(await three.read_summary(summary(brokers[2])), "start_offset") == [(-1,)] * PARTITIONS


@pytest.mark.parametrize("code", sorted(module.TRANSIENT))
async def test_a_coordinator_that_moves_is_asked_again(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    one = brokers[0].services.share_persister()
    await one.initialize(initialize(brokers[0], 5))
    perform, refused = ShareCoordinator.perform, [2 * PARTITIONS]

    def perform_later(self: ShareCoordinator, *arguments: Any) -> Any:
        refused[0] -= 1
        if refused[0] >= 0:
            raise KafkaError(code)
        return perform(self, *arguments)

    monkeypatch.setattr(ShareCoordinator, "perform", perform_later)
    found = results(await one.read_summary(summary(brokers[0])), "error_code", "start_offset")
    assert found == [(0, 5)] * PARTITIONS


async def test_a_coordinator_that_stays_away_is_given_up(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(self: ShareCoordinator, *_arguments: Any) -> Any:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    one = brokers[0].services.share_persister()
    await one.initialize(initialize(brokers[0], 5))
    monkeypatch.setattr(ShareCoordinator, "perform", nowhere)
    found = results(await one.read_summary(summary(brokers[0])), "error_code")
    assert found == [(ErrorCode.NOT_COORDINATOR,)] * PARTITIONS


async def test_an_error_that_lasts_is_not_tried_again(brokers: list[Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    perform = ShareCoordinator.perform

    def count(self: ShareCoordinator, *arguments: Any) -> Any:
        asked.append(arguments)
        return perform(self, *arguments)

    monkeypatch.setattr(ShareCoordinator, "perform", count)
    one = brokers[0].services.share_persister()
    read = every(brokers[0], reads.ReadShareGroupStateRequest, reads.ReadStateData, reads.PartitionData)
    async with asyncio.timeout(30):
        found = results(await one.read(read), "error_code")
    assert found == [(ErrorCode.INVALID_REQUEST,)] * PARTITIONS
    assert len(asked) == PARTITIONS
