"""Data directories that older versions wrote are opened with all that was in them (made by `tools/old_data.py`)."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.downloads import untar
from harness.raw_client import RawClient
from harness.waiting import until
from kwire.base.doors import Clock, Doors
from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.features import ACCESS_VERSION
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_headers, iter_records
from kwire.server.broker import Broker

ARCHIVES = sorted((Path(__file__).parents[1] / "old_data").glob("*.tar.xz"))
DAY_MS = 86_400_000
READ_COMMITTED = 1


class Opened:
    """A broker of today on an older one's directory, a minute after that one ended."""

    def __init__(self, broker: Broker, client: RawClient, expected: dict[str, Any]) -> None:
        self.broker = broker
        self.client = client
        self.expected = expected

    async def read(self, topic: str, partition: int) -> list[list[Any]]:
        """[offset, value, timestamp] of every committed record."""
        asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )  # fmt: skip
        (told,) = (await self.client.call(request, 12)).responses[0].partitions
        assert told.error_code == ErrorCode.NONE
        aborted = {each.producer_id: each.first_offset for each in told.aborted_transactions or ()}
        found: list[list[Any]] = []
        view = memoryview(told.records or b"")
        for position, header in iter_headers(view):
            if header.is_control or header.base_offset >= aborted.get(header.producer_id, 1 << 60):
                if header.is_control:
                    aborted.pop(header.producer_id, None)
                continue
            for record in iter_records(view[position : position + header.size], max_bytes=1 << 20):
                found.append([record.offset, bytes(record.value or b"").decode(), record.timestamp])
        return found

    async def produce(self, sequence: int) -> tuple[str, int]:
        """The old producer goes on: error and offset."""
        producer = self.expected["producers"]
        record = Record(offset=0, timestamp=self.expected["now_ms"], key=None, value=b"new")
        batch = build_batch(
            [record], producer_id=producer["id"], producer_epoch=producer["epoch"], base_sequence=sequence
        )
        data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="idempotent", partition_data=[data])]
        )
        (part,) = (await self.client.call(request, 12)).responses[0].partition_responses
        return ErrorCode(part.error_code).name, part.base_offset

    async def positions(self, group: str) -> dict[str, int]:
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        (told,) = (await self.client.call(OffsetFetchRequest(groups=[asked]), 8)).groups
        return {str(each.partition_index): each.committed_offset for topic in told.topics for each in topic.partitions}


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    untar(request.param, tmp_path)
    expected = json.loads((tmp_path / "expected.json").read_text())
    now_ms = expected["now_ms"] + 120_000  # what was open has timed out
    doors = Doors(clock=Clock(time_ms=lambda: now_ms))
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(
            Broker(
                log_dir=tmp_path / "data",
                listeners="PLAINTEXT://127.0.0.1:0",
                doors=doors,
                transaction_abort_timed_out_transaction_cleanup_interval_ms=50,
            )
        )
        port = broker.net.listeners[0].address[1]
        client = await stack.enter_async_context(await RawClient.connect(Doors(), "127.0.0.1", port, "test"))
        yield Opened(broker, client, expected)


def test_there_are_directories_of_older_versions() -> None:
    assert len(ARCHIVES) >= 5
    assert {"0.1.0.tar.xz", "0.1.0-killed.tar.xz"} <= {each.name for each in ARCHIVES}


async def test_records_groups_and_features_are_there(opened: Opened) -> None:
    """The first kwires wrote no level of eligible leader replicas, and had them."""
    await check_records(opened)
    assert opened.expected["groups"]
    for group, positions in opened.expected["groups"].items():
        assert await opened.positions(group) == positions
    levels = opened.broker.metadata.image.features
    assert levels["eligible.leader.replicas.version"] == 1
    assert levels["metadata.version"] == 30


async def check_records(opened: Opened) -> None:
    if "transactional" in opened.broker.metadata.image.topics:
        log = opened.broker.replicas.partition("transactional", 0).log
        await until(lambda: log.last_stable_offset == log.log_end_offset)  # what was left open is aborted
    places = sorted(opened.expected["records"])
    assert len(places) >= 4
    for place in places:
        topic, _, partition = place.rpartition("-")
        found = await opened.read(topic, int(partition))
        wanted = sorted(opened.expected["records"][place])
        if topic == "compacted":
            newest = {int(value) % 10: [offset, value, time_ms] for offset, value, time_ms in wanted}
            assert [each for each in found if each in newest.values()] == sorted(newest.values())
        else:
            assert found == wanted, place
    assert "gone" not in opened.broker.metadata.image.topics


async def test_an_idempotent_producer_goes_on_where_it_was(opened: Opened) -> None:
    following = opened.expected["producers"]["next"]
    assert await opened.produce(following - 1) == ("NONE", following - 1)  # the same batch again: a duplicate
    assert await opened.produce(following + 1) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
    assert await opened.produce(following) == ("NONE", following)


async def test_an_older_directory_stays_open_to_all_and_takes_credentials(opened: Opened) -> None:
    """The feature level of access control is finalised with the first of them."""
    assert opened.broker.services.authorizer.allows_all
    assert not opened.broker.metadata.image.features.get(ACCESS_VERSION)
    user = ScramCredentialUpsertion(name="a", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32)
    answer = await opened.client.call(AlterUserScramCredentialsRequest(upsertions=[user]), 0)
    assert [each.error_code for each in answer.results] == [0]
    assert opened.broker.metadata.image.features[ACCESS_VERSION] == 1
