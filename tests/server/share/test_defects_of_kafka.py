"""Defects that Apache Kafka had with share consumers, at one broker: kwire must not have them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.cluster.replication.partition import Partition
from kwire.codec.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.share.test_share_fetch import (
    ACCEPT,
    MEMBER,
    Share,
    acknowledge_errors,
    acquired,
    errors,
)
from tests.server.share.test_share_fetch import share as share  # noqa: PLC0414 (a fixture)

OTHER = "n" * 22


def partition_of(share: Share) -> Partition:
    return share.broker.parts.services.replicas.partition_by_id(share.topic_id, 0)


async def waiting_fetch(share: Share, member: str = OTHER, client: RawClient | None = None) -> asyncio.Future[Any]:
    """A fetch that waits for records at the share partition."""
    client = client or await share.brokers.connect(share.broker)
    waiting = asyncio.ensure_future(share.fetch(client=client, member=member, max_wait_ms=60_000))
    shares = share.broker.parts.services.shares.partitions
    async with asyncio.timeout(PATIENCE_S):
        while (found := shares.find("g", (share.topic_id, 0))) is None or not found._waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return waiting


async def test_a_waiting_fetch_ends_when_the_leader_changes(share: Share) -> None:
    """KAFKA-19567: it waited until its time was over."""
    waiting = await waiting_fetch(share)
    state = share.broker.metadata.image.topics["t"].partitions[0]
    partition_of(share).update(state._replace(leader=9, leader_epoch=1, partition_epoch=state.partition_epoch + 1))
    async with asyncio.timeout(PATIENCE_S):
        assert errors(await waiting) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_a_fetch_that_fails_holds_up_no_other(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-19215: a fetch that ended with an exception kept the lock of the share partition."""
    await share.fetch(max_wait_ms=0, min_bytes=0)
    await share.produce(5)
    read = Partition.read

    def fail(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(Partition, "read", read)
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)

    monkeypatch.setattr(Partition, "read", fail)
    assert errors(await share.fetch(1)) == ["OFFSET_OUT_OF_RANGE"]
    other = await share.brokers.connect(share.broker)
    assert acquired(await share.fetch(client=other, member=OTHER)) == [(0, 4, 1)]


async def test_a_fetch_whose_client_has_gone_holds_up_no_other(share: Share) -> None:
    """KAFKA-19215: the same for a fetch that nobody waits for any more."""
    gone = await share.brokers.connect(share.broker)
    lost = await waiting_fetch(share, client=gone)
    gone.close()
    lost.cancel()
    shares = share.broker.parts.services.shares.partitions
    async with asyncio.timeout(PATIENCE_S):
        while shares.find("g", (share.topic_id, 0)) is not None:  # noqa: ASYNC110 (its group has no session left)
            await asyncio.sleep(0.001)
    waiting = await waiting_fetch(share, MEMBER)
    await share.produce(5)
    async with asyncio.timeout(PATIENCE_S):
        assert acquired(await waiting) == [(0, 4, 1)]


async def test_a_session_that_is_opened_again_may_not_acknowledge(share: Share) -> None:
    """KAFKA-19485: after a restart of the broker, clients sent what they had to acknowledge with the first request of
    their new session. It is refused, and neither the session nor a record changes."""
    await share.produce(5)
    await share.fetch()
    refused = await share.fetch(0, (0, 4, [ACCEPT]))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert (await share.acknowledge(0, (0, 4, [ACCEPT]))).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert acknowledge_errors(await share.fetch(1, (0, 4, [ACCEPT]), max_wait_ms=0)) == ["NONE"]


async def test_without_share_groups_sessions_and_share_partitions_end(share: Share) -> None:
    """`share.version` is set back to 0: a waiting fetch ends, and nothing is kept."""
    waiting = await waiting_fetch(share)
    shares = share.broker.parts.services.shares.partitions
    update = FeatureUpdateKey(feature=SHARE_VERSION, max_version_level=0, upgrade_type=2)
    answer = await share.client.call(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert answer.error_code == 0, answer
    async with asyncio.timeout(PATIENCE_S):
        assert errors(await waiting) == ["NOT_LEADER_OR_FOLLOWER"]
    assert (len(shares), len(shares.sessions)) == (0, 0)
