"""The persisters: the one that asks share coordinators, and the one that stores nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

import kwire.coordinator.share.persister
from harness.simulation.loop import VirtualLoop
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages import (
    delete_share_group_state_request as deletes,
)
from kwire.codec.messages import (
    initialize_share_group_state_request as initializes,
)
from kwire.codec.messages import (
    read_share_group_state_request as reads,
)
from kwire.codec.messages import (
    read_share_group_state_summary_request as summaries,
)
from kwire.codec.messages import (
    write_share_group_state_request as writes,
)
from kwire.codec.messages import (
    write_share_group_state_response as written,
)
from kwire.coordinator.share.persister import ATTEMPTS, DefaultStatePersister, NoOpStatePersister

TOPIC = bytes(range(16))


async def test_without_a_persister_class_every_change_succeeds() -> None:
    persister = NoOpStatePersister()
    begun = initializes.InitializeStateData(topic_id=TOPIC, partitions=[initializes.PartitionData(partition=3)])
    changed = writes.WriteStateData(topic_id=TOPIC, partitions=[writes.PartitionData(partition=3, start_offset=9)])
    deleted = deletes.DeleteStateData(topic_id=TOPIC, partitions=[deletes.PartitionData(partition=3)])
    for response in (
        await persister.initialize(initializes.InitializeShareGroupStateRequest(group_id="g", topics=[begun])),
        await persister.write(writes.WriteShareGroupStateRequest(group_id="g", topics=[changed])),
        await persister.delete(deletes.DeleteShareGroupStateRequest(group_id="g", topics=[deleted])),
    ):
        (topic,) = response.results
        (result,) = topic.partitions
        assert (topic.topic_id, result.partition, result.error_code) == (TOPIC, 3, 0)


async def test_without_a_persister_class_a_share_partition_begins_anew() -> None:
    persister = NoOpStatePersister()
    asked = reads.ReadStateData(topic_id=TOPIC, partitions=[reads.PartitionData(partition=3, leader_epoch=5)])
    response = await persister.read(reads.ReadShareGroupStateRequest(group_id="g", topics=[asked]))
    (state,) = response.results[0].partitions
    assert (state.partition, state.error_code, state.state_epoch, state.start_offset) == (3, 0, 0, -1)
    assert state.state_batches == []
    summarised = summaries.ReadStateSummaryData(topic_id=TOPIC, partitions=[summaries.PartitionData(partition=3)])
    summary = await persister.read_summary(
        summaries.ReadShareGroupStateSummaryRequest(group_id="g", topics=[summarised])
    )
    (short,) = summary.results[0].partitions
    assert (short.error_code, short.state_epoch, short.start_offset, short.delivery_complete_count) == (0, 0, -1, -1)


class Peers:
    """Other brokers: notes the requests; answers with one of the errors that are left, then with success."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.requests: list[tuple[int, writes.WriteShareGroupStateRequest]] = []
        self.errors = list(errors)

    async def call(
        self, broker: int, request: writes.WriteShareGroupStateRequest, version: int, *, timeout_s: float
    ) -> written.WriteShareGroupStateResponse:
        self.requests.append((broker, request))
        code = self.errors.pop(0) if self.errors else ErrorCode.NONE
        return written.WriteShareGroupStateResponse(
            results=[
                written.WriteStateResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        written.PartitionResult(partition=each.partition, error_code=code) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class Cluster:
    """In the place of the share coordinator and of the metadata: even partitions belong to broker 2, odd ones to 3.

    ``topics``: the ids of the topics that this broker knows, with ten partitions each."""

    def __init__(self, topics: tuple[bytes, ...] = (TOPIC,)) -> None:
        self.image = self
        self.topics = {each: SimpleNamespace(partitions=range(10)) for each in topics}

    def partition_of(self, key: str) -> int:
        return int(key.rpartition(":")[2]) % 2

    def topic(self, name: str) -> Cluster:
        return self

    def topic_by_id(self, topic_id: bytes) -> object:
        return self.topics.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionState:
        return PartitionState(
            leader=2 + index, leader_epoch=0, partition_epoch=0, replicas=(2 + index,), isr=(2 + index,)
        )


def persister_of(peers: Peers, metadata: Cluster | None = None) -> DefaultStatePersister:
    async def create_topic() -> None:
        """It exists."""

    cluster = metadata or Cluster()
    return DefaultStatePersister(Doors(), cluster, peers, cluster, 1, create_topic)  # type: ignore[arg-type]


def write_of(partition: int, group: str = "g", start_offset: int = 9) -> writes.WriteShareGroupStateRequest:
    data = writes.PartitionData(partition=partition, start_offset=start_offset)
    return writes.WriteShareGroupStateRequest(
        group_id=group, topics=[writes.WriteStateData(topic_id=TOPIC, partitions=[data])]
    )


async def test_what_one_turn_writes_for_a_group_goes_to_each_coordinator_in_one_request() -> None:
    peers = Peers()
    persister = persister_of(peers)
    answers = await asyncio.gather(*(persister.write(write_of(partition)) for partition in range(6)))
    assert [answer.results[0].partitions[0].partition for answer in answers] == [0, 1, 2, 3, 4, 5]
    sent = [(broker, [each.partition for each in request.topics[0].partitions]) for broker, request in peers.requests]
    assert sent == [(2, [0, 2, 4]), (3, [1, 3, 5])]


async def test_groups_are_not_mixed_and_a_partition_is_in_a_request_only_once() -> None:
    peers = Peers()
    persister = persister_of(peers)
    await asyncio.gather(
        persister.write(write_of(0)),
        persister.write(write_of(0, "h")),
        persister.write(write_of(0, start_offset=10)),
        persister.write(write_of(2)),
    )
    sent = [
        (request.group_id, [(each.partition, each.start_offset) for each in request.topics[0].partitions])
        for _, request in peers.requests
    ]
    assert sent == [("g", [(0, 9)]), ("h", [(0, 9)]), ("g", [(0, 10), (2, 9)])]


async def test_a_caller_that_gives_up_leaves_the_others_their_response() -> None:
    persister = persister_of(Peers())
    first, second = (asyncio.ensure_future(persister.write(write_of(partition))) for partition in (0, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).results[0].partitions[0].error_code == 0


async def test_a_coordinator_that_has_moved_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kwire.coordinator.share.persister, "BACKOFF_S", 0.001)
    peers = Peers(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = await persister_of(peers).write(write_of(0))
    assert (answer.results[0].partitions[0].error_code, len(peers.requests)) == (0, 3)
    peers = Peers(ErrorCode.FENCED_LEADER_EPOCH)
    answer = await persister_of(peers).write(write_of(0))
    assert (answer.results[0].partitions[0].error_code, len(peers.requests)) == (ErrorCode.FENCED_LEADER_EPOCH, 1)


async def test_a_coordinator_that_does_not_know_a_new_topic_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kwire.coordinator.share.persister, "BACKOFF_S", 0.001)
    peers = Peers(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = await persister_of(peers).write(write_of(0))
    assert (answer.results[0].partitions[0].error_code, len(peers.requests)) == (0, 3)


@pytest.mark.parametrize(("topics", "partition"), [((), 0), ((TOPIC,), 10)], ids=["topic", "partition"])
async def test_what_this_broker_does_not_know_either_is_not_asked_for_again(
    topics: tuple[bytes, ...], partition: int
) -> None:
    peers = Peers(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = await persister_of(peers, Cluster(topics)).write(write_of(partition))
    assert answer.results[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(peers.requests) == 1


def test_a_coordinator_that_stays_away_is_given_up_after_half_a_minute_as_in_kafka() -> None:
    peers = Peers(*[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100)

    async def scenario() -> tuple[int, float]:
        began_s = asyncio.get_running_loop().time()
        answer = await persister_of(peers).write(write_of(0))
        return answer.results[0].partitions[0].error_code, asyncio.get_running_loop().time() - began_s

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        code, took_s = runner.run(scenario())
    assert (code, len(peers.requests)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ATTEMPTS)
    assert 24 <= took_s <= 36
