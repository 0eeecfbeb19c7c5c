"""Members of a share group fetch and acknowledge at a broker (KIP-932)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.codec.messages.share_fetch_request import AcknowledgementBatch as FetchedAcknowledgement
from kwire.codec.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.codec.records import Record, build_batch
from kwire.server.broker import Broker
from tests.server.conftest import Brokers

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP, MEMBER = "g", "m" * 22


class Share:
    """A broker with topic ``t``, whose partition 0 is initialised for the group, and a member's connection."""

    def __init__(self, brokers: Brokers, broker: Broker, client: RawClient) -> None:
        self.brokers = brokers
        self.broker = broker
        self.client = client
        self.topic_id = broker.metadata.image.topics["t"].id

    async def initialize(self, start_offset: int = 0, epoch: int = 1) -> None:
        data = PartitionData(partition=0, state_epoch=epoch, start_offset=start_offset)
        topic = InitializeStateData(topic_id=self.topic_id, partitions=[data])
        response = await self.client.call(InitializeShareGroupStateRequest(group_id=GROUP, topics=[topic]), 0)
        assert [part.error_code for result in response.results for part in result.partitions] == [0]

    async def produce(self, count: int) -> None:
        records = [Record(offset=each, timestamp=1, key=None, value=b"v%d" % each) for each in range(count)]
        data = PartitionProduceData(index=0, records=memoryview(bytearray(build_batch(records))))
        topic = TopicProduceData(name="t", partition_data=[data])
        await self.client.call(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)

    async def fetch(
        self,
        epoch: int = 0,
        *acknowledged: tuple[int, int, list[int]],
        client: RawClient | None = None,
        member: str = MEMBER,
        topics: bool = True,
        **fields: Any,
    ) -> Any:
        batches = [
            FetchedAcknowledgement(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        asked = FetchTopic(
            topic_id=self.topic_id, partitions=[FetchPartition(partition_index=0, acknowledgement_batches=batches)]
        )
        given = {"max_wait_ms": 5000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=member,
            share_session_epoch=epoch,
            topics=[asked] if topics else [],
            **(given | fields),
        )
        return await (client or self.client).call(request, 2)

    async def acknowledge(self, epoch: int, *acknowledged: tuple[int, int, list[int]], **fields: Any) -> Any:
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        topic = AcknowledgeTopic(
            topic_id=self.topic_id,
            partitions=[AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)],
        )
        request = ShareAcknowledgeRequest(
            group_id=GROUP, member_id=MEMBER, share_session_epoch=epoch, topics=[topic], **fields
        )
        return await self.client.call(request, 2)


def acquired(response: Any) -> list[tuple[int, int, int]]:
    assert response.error_code == 0
    parts = [part for topic in response.responses for part in topic.partitions]
    assert all(part.error_code == 0 for part in parts)
    found = [each for part in parts for each in part.acquired_records]
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in found]


def errors(response: Any) -> list[str]:
    return [ErrorCode(part.error_code).name for topic in response.responses for part in topic.partitions]


def acknowledge_errors(response: Any) -> list[str]:
    return [ErrorCode(part.acknowledge_error_code).name for topic in response.responses for part in topic.partitions]


@pytest.fixture
async def share(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Share:
    monkeypatch.setattr("kwire.handlers.share.requests.offers_share_groups", lambda _context: True)
    broker = await brokers.start(
        offsets_topic_replication_factor=1,
        share_coordinator_state_topic_replication_factor=1,
        share_coordinator_state_topic_num_partitions=1,
        share_coordinator_state_topic_min_isr=1,
    )
    client = await brokers.connect(broker)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    made = Share(brokers, broker, client)
    key = f"{GROUP}:{_uuid_text(made.topic_id)}:0"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
            if found.coordinators[0].error_code == 0:
                break
            await asyncio.sleep(0.01)
        await made.initialize()
    return made


def _uuid_text(topic_id: bytes) -> str:
    import base64

    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


async def test_what_one_member_has_acquired_no_other_gets(share: Share) -> None:
    await share.produce(10)
    first = await share.fetch()
    other = await share.fetch(member="n" * 22, max_wait_ms=1)
    assert (acquired(first), acquired(other)) == ([(0, 9, 1)], [])
    assert first.acquisition_lock_timeout_ms == 30_000


async def test_accepted_records_do_not_come_again_and_released_ones_do(share: Share) -> None:
    await share.produce(10)
    await share.fetch()
    answer = await share.fetch(1, (0, 3, [ACCEPT]), (4, 9, [RELEASE]), max_wait_ms=0)
    assert (acknowledge_errors(answer), acquired(answer)) == (["NONE"], [])
    assert acquired(await share.fetch(2)) == [(4, 9, 2)]


async def test_a_fetch_waits_for_records(share: Share) -> None:
    waiting = asyncio.ensure_future(share.fetch(max_wait_ms=60_000))
    other = await share.brokers.connect(share.broker)
    await asyncio.sleep(0)
    share.client, member = other, share.client
    await share.produce(3)
    async with asyncio.timeout(PATIENCE_S):
        assert acquired(await waiting) == [(0, 2, 1)]
    share.client = member


async def test_the_first_fetch_does_not_wait_if_it_asks_for_no_bytes(share: Share) -> None:
    async with asyncio.timeout(PATIENCE_S):
        assert acquired(await share.fetch(max_wait_ms=10 * 60_000, min_bytes=0)) == []


async def test_the_limit_of_records_is_kept_in_that_mode(share: Share) -> None:
    await share.produce(10)
    assert acquired(await share.fetch(max_records=4, share_acquire_mode=1)) == [(0, 3, 1)]
    assert acquired(await share.fetch(member="n" * 22, max_records=4, share_acquire_mode=0)) == [(4, 9, 1)]


async def test_a_session_ends_with_its_connection_and_releases_its_records(share: Share) -> None:
    await share.produce(5)
    other = await share.brokers.connect(share.broker)
    assert acquired(await share.fetch(client=other, member="n" * 22)) == [(0, 4, 1)]
    other.close()
    async with asyncio.timeout(PATIENCE_S):
        assert acquired(await share.fetch(max_wait_ms=60_000)) == [(0, 4, 2)]


async def test_the_last_request_of_a_session_releases_what_is_held(share: Share) -> None:
    await share.produce(5)
    await share.fetch()
    answer = await share.acknowledge(-1, (0, 1, [ACCEPT]))
    assert errors(answer) == ["NONE"]
    assert acquired(await share.fetch(max_wait_ms=5000)) == [(2, 4, 2)]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(1, "NONE"), (2, "INVALID_SHARE_SESSION_EPOCH"), (-2, "INVALID_SHARE_SESSION_EPOCH"), (-1, "NONE")],
)
async def test_the_epoch_of_a_session_is_checked(share: Share, epoch: int, expected: str) -> None:
    await share.fetch(max_wait_ms=0)
    assert ErrorCode((await share.fetch(epoch, max_wait_ms=0)).error_code).name == expected


async def test_without_a_session_there_is_nothing_to_continue(share: Share) -> None:
    answers = [await share.fetch(1), await share.fetch(-1), await share.acknowledge(1), await share.acknowledge(-1)]
    assert {ErrorCode(answer.error_code).name for answer in answers} == {"SHARE_SESSION_NOT_FOUND"}
    assert (await share.acknowledge(0)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_the_first_request_of_a_session_may_not_acknowledge(share: Share) -> None:
    assert (await share.fetch(0, (0, 0, [ACCEPT]))).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "batches",
    [
        [(3, 2, [ACCEPT])],
        [(0, 2, [ACCEPT]), (1, 3, [ACCEPT])],
        [(0, 2, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 2, [5])],
        [(0, 2, [-1])],
        [(0, 2, [RENEW])],
    ],
)
async def test_malformed_acknowledgements_are_refused_and_change_nothing(share: Share, batches: Any) -> None:
    await share.produce(5)
    await share.fetch()
    assert errors(await share.acknowledge(1, *batches)) == ["INVALID_REQUEST"]
    assert errors(await share.acknowledge(2, (0, 4, [ACCEPT]))) == ["NONE"]


async def test_acknowledgements_of_records_that_a_member_does_not_hold_are_refused(share: Share) -> None:
    await share.produce(5)
    await share.fetch()
    assert errors(await share.acknowledge(1, (1, 4, [ACCEPT]))) == ["NONE"]
    answers = [await share.acknowledge(2, (1, 4, [ACCEPT])), await share.acknowledge(3, (0, 2**40, [ACCEPT]))]
    assert [errors(answer) for answer in answers] == [["INVALID_RECORD_STATE"], ["INVALID_REQUEST"]]
    assert errors(await share.acknowledge(4, (0, 0, [ACCEPT]))) == ["NONE"]


async def test_a_renewal_must_not_fetch(share: Share) -> None:
    await share.produce(2)
    await share.fetch()
    refused = await share.fetch(1, (0, 1, [RENEW]), is_renew_ack=True)
    none: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    accepted = await share.fetch(1, (0, 1, [RENEW]), is_renew_ack=True, **none)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert (accepted.error_code, acknowledge_errors(accepted)) == (0, ["NONE"])


async def test_a_deleted_topic_fails_the_waiting_fetch(share: Share) -> None:
    other = await share.brokers.connect(share.broker)
    waiting = asyncio.ensure_future(share.fetch(client=other, max_wait_ms=60_000))
    async with asyncio.timeout(PATIENCE_S):
        while not len(share.broker.parts.services.shares.partitions):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        topic = DeleteTopicState(name="t")
        await share.client.call(DeleteTopicsRequest(topics=[topic], timeout_ms=5000), 6)
        assert errors(await waiting) == ["UNKNOWN_TOPIC_OR_PARTITION"]


async def test_a_newer_state_epoch_fences_the_share_partition(share: Share) -> None:
    await share.produce(5)
    await share.fetch()
    await share.initialize(start_offset=2, epoch=2)
    assert errors(await share.acknowledge(1, (0, 4, [ACCEPT]))) == ["NOT_LEADER_OR_FOLLOWER"]
    assert acquired(await share.fetch(2)) == [(2, 4, 1)]


async def test_metrics_show_what_members_fetch_and_acknowledge(share: Share) -> None:
    def metric(name: str) -> Any:
        return share.broker.metrics.snapshot().get(f"kafka.server:type={name}")

    await share.produce(10)
    await share.fetch()
    of_partition = f"group={GROUP},topic=t,partition=0"
    assert metric(f"SharePartitionMetrics,name=InFlightMessageCount,{of_partition}") == {"Value": 10}
    lag = share.broker.metrics.snapshot()[f"kwire.server:type=SharePartitionMetrics,name=Lag,{of_partition}"]
    assert lag == {"Value": 10}
    assert metric("ShareSessionCache,name=ShareSessionsCount") == 1
    assert metric("ShareSessionCache,name=SharePartitionsCount") == 1
    await share.acknowledge(1, (0, 3, [ACCEPT]), (4, 6, [RELEASE, 0, REJECT]))
    await share.acknowledge(2, (7, 8, [RENEW]), is_renew_ack=True)
    await share.acknowledge(3, (50, 51, [ACCEPT]))
    counts = {
        kind: metric(f"ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType={kind}")["Count"]
        for kind in ("Accept", "Release", "Reject", "Renew")
    }
    assert counts == {"Accept": 4, "Release": 1, "Reject": 1, "Renew": 2}
    for name, count in (
        ("TotalShareFetchRequestsPerSec", 1),
        ("TotalShareAcknowledgementRequestsPerSec", 3),
        ("FailedShareAcknowledgementRequestsPerSec", 1),
    ):
        assert metric(f"BrokerTopicMetrics,name={name}")["Count"] == count
        assert metric(f"BrokerTopicMetrics,name={name},topic=t")["Count"] == count
    assert metric("BrokerTopicMetrics,name=FailedShareFetchRequestsPerSec,topic=t") is None
    assert metric("ShareGroupMetrics,name=PartitionLoadTimeMs")["Count"] == 1
