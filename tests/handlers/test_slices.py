"""Requests about very many partitions or resources: other clients get their turn in between."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Generator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from kwire.base.futures import NowOrLater, is_later, resolved
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest
from kwire.codec.messages.describe_producers_request import TopicRequest as TopicOfProducers
from kwire.codec.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.codec.protocol import encode
from kwire.handlers import authorization, slices
from kwire.handlers.audit import changes
from kwire.handlers.cluster import describe_log_dirs
from kwire.handlers.configs import describe_configs
from kwire.handlers.context import RequestContext
from kwire.handlers.data import list_offsets, offset_for_leader_epoch
from kwire.handlers.slices import in_slices
from kwire.handlers.topics import create_topics, describe_topic_partitions, metadata
from kwire.handlers.transactions import describe_producers
from kwire.server.broker import Broker
from tests.handlers.admin_broker import Guard

OFFSETS = ListOffsetsRequest(
    topics=[
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=i, timestamp=-1) for i in indexes])
        for name, indexes in (("a", (0, 1, 2)), ("b", (2, 0, 0)), ("absent", (0,)))
    ]
)
CONFIGS = DescribeConfigsRequest(
    resources=[DescribeConfigsResource(resource_type=2, resource_name=name) for name in ("a", "b", "absent", "a", "b")]
)
PAGE = DescribeTopicPartitionsRequest(
    topics=[TopicRequest(name=name) for name in ("a", "absent", "b")], response_partition_limit=4
)
ABSENT_PAGE = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in ("p", "q", "r", "no/name")])
ABSENT = MetadataRequest(
    topics=[MetadataRequestTopic(name=name) for name in ("p", "q", "a", "not/legal", "s", "p")],
    allow_auto_topic_creation=False,
)
ABSENT_IDS = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=bytes([each] * 16)) for each in b"pqrsp"])
CASES = [
    (list_offsets, "SLICE_PARTITIONS", OFFSETS, 7, 4),
    (describe_log_dirs, "SLICE_PARTITIONS", DescribeLogDirsRequest(topics=None), 3, 3),
    (describe_topic_partitions, "SLICE_PARTITIONS", PAGE, 0, 4),
    (describe_topic_partitions, "SLICE_PARTITIONS", ABSENT_PAGE, 0, 2),
    (describe_configs, "SLICE_RESOURCES", CONFIGS, 3, 3),
    (describe_configs, "SLICE_RESOURCES", CONFIGS, 4, 3),
    (metadata, "SLICE_NAMES", ABSENT, 12, 3),
    (metadata, "SLICE_NAMES", ABSENT_IDS, 12, 2),
]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        new = [CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in "ab"]
        request = CreateTopicsRequest(topics=new, timeout_ms=5000)
        await create_topics.handle(request, RequestContext(broker.services, api_version=7))
        yield broker


def turns_and_result(result: NowOrLater[Any]) -> tuple[int, Any]:
    """In how many turns of the event loop a result is made, if nothing has to be waited for."""
    if not is_later(result):
        return 1, result
    steps = cast("Generator[None, None, Any]", result.__await__())
    turns = 1
    while True:
        try:
            assert next(steps) is None
        except StopIteration as end:
            return turns, end.value
        turns += 1


@pytest.mark.parametrize(("count", "turns"), [(0, 1), (3, 1), (4, 2), (6, 2), (7, 3)])
def test_items_are_done_in_order_in_slices(count: int, turns: int) -> None:
    items = list(range(count))
    assert turns_and_result(in_slices(items, list, 3)) == (turns, items)


@pytest.mark.parametrize("version", [5, 7])
async def test_many_topics_are_described_and_encoded_in_slices(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(create_topics, "SLICE_TOPICS", 2)
    new = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "acdeefg"]
    context = RequestContext(broker.services, api_version=version)
    response = await create_topics.handle(CreateTopicsRequest(topics=new, timeout_ms=5000), context)
    assert [each.error_code for each in response.topics] == [36, 0, 0, 42, 0, 0]
    assert context.charged == [bytes(encode(response, version))]


@pytest.mark.parametrize(("module", "size", "request_", "version", "turns"), CASES)
async def test_the_response_is_that_of_one_turn(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, module: Any, size: str, request_: Any, version: int, turns: int
) -> None:
    def handled() -> tuple[int, bytes]:
        context = RequestContext(broker.services, api_version=version)
        done, response = turns_and_result(module.API.handle(request_, context))
        body = bytes(encode(response, version))
        assert context.charged is None or context.charged == [body]
        return done, body

    at_once = handled()
    assert at_once[0] == 1
    monkeypatch.setattr(module, size, 2)
    assert handled() == (turns, at_once[1])


NEW_TOPICS = CreateTopicsRequest(
    topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "abcde"],
    validate_only=True,
    timeout_ms=5000,
)
NAMED_TOPICS = MetadataRequest(
    topics=[MetadataRequestTopic(name=name) for name in "abcde"], allow_auto_topic_creation=False
)


@pytest.mark.parametrize(
    ("module", "request_", "version"),
    [
        (metadata, MetadataRequest(topics=None), 1),
        (metadata, MetadataRequest(topics=None), 12),
        (metadata, MetadataRequest(topics=None, include_topic_authorized_operations=True), 12),
        (metadata, MetadataRequest(topics=[]), 0),
        (metadata, NAMED_TOPICS, 12),
        (describe_topic_partitions, DescribeTopicPartitionsRequest(topics=[]), 0),
        (create_topics, NEW_TOPICS, 4),
    ],
)
async def test_an_authorizer_decides_about_very_many_topics_in_slices(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, module: Any, request_: Any, version: int
) -> None:
    if module is not create_topics:
        new = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "cde"]
        await create_topics.handle(
            CreateTopicsRequest(topics=new, timeout_ms=5000), RequestContext(broker.services, api_version=7)
        )
    guard = Guard("c", "kafka-cluster")
    services = dataclasses.replace(broker.services, authorizer=guard)

    async def handled() -> tuple[list[int], bytes]:
        """The decisions made before each slice, and the response."""
        guard.decisions = 0
        before: list[int] = []
        sleep = asyncio.sleep

        async def noted(delay: float) -> None:
            before.append(guard.decisions)
            await sleep(delay)

        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", noted)
            response = await resolved(module.API.handle(request_, RequestContext(services, api_version=version)))
        return before, bytes(encode(response, version))

    _, at_once = await handled()
    monkeypatch.setattr(authorization, "SLICE_NAMES", 2)
    monkeypatch.setattr(metadata, "SLICE_NAMES", 2)
    before, body = await handled()
    assert body == at_once
    others = int(module is create_topics)  # whether any topic may be created
    assert [each - others for each in before[:2]] == [2, 4]


class Lines:
    """Stands for a logger: counts its lines."""

    level = 0

    def __init__(self) -> None:
        self.count = 0

    def info(self, *_: object, **fields: object) -> None:
        self.count += 1


PRODUCERS = DescribeProducersRequest(
    topics=[TopicOfProducers(name=name, partition_indexes=[0, 2, 5]) for name in ("a", "absent", "b")]
)
EPOCHS = OffsetForLeaderEpochRequest(
    topics=[
        OffsetForLeaderTopic(
            topic=name, partitions=[OffsetForLeaderPartition(partition=at, leader_epoch=0) for at in (0, 2, 5)]
        )
        for name in ("a", "absent", "b")
    ]
)


@pytest.mark.parametrize(
    ("module", "request_", "version"),
    [(describe_producers, PRODUCERS, 0), (offset_for_leader_epoch, EPOCHS, 4)],
)
async def test_very_many_partitions_of_topics_are_done_in_slices(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, module: Any, request_: Any, version: int
) -> None:
    def handled() -> tuple[int, bytes]:
        context = RequestContext(broker.services, api_version=version)
        turns, response = turns_and_result(module.API.handle(request_, context))
        body = bytes(encode(response, version))
        assert context.charged == (None if turns == 1 else [body])
        return turns, body

    at_once = handled()
    assert at_once[0] == 1
    monkeypatch.setattr(slices, "SLICE_PARTITIONS", 4)
    assert handled() == (3, at_once[1])


async def test_very_many_topics_are_created_automatically_in_slices(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, lines = Guard("c", "kafka-cluster"), Lines()
    context = RequestContext(dataclasses.replace(broker.services, authorizer=guard), api_version=12)
    names = [f"new-{number}" for number in range(9)]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("a", "c", *names, "no/name")])
    done: list[tuple[int, int]] = []
    sleep = asyncio.sleep

    async def noted(delay: float) -> None:
        done.append((guard.decisions, lines.count))
        await sleep(delay)

    monkeypatch.setattr(authorization, "SLICE_NAMES", 2)
    monkeypatch.setattr(metadata, "SLICE_NAMES", 2)
    monkeypatch.setattr(changes, "SLICE_LINES", 2)
    monkeypatch.setattr(changes, "_logger", lines)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", noted)
        response = await resolved(metadata.API.handle(request, context))
    done.append((guard.decisions, lines.count))
    codes = {topic.name: topic.error_code for topic in response.topics}
    assert codes == {"a": 0, "c": 29, **dict.fromkeys(names, 0), "no/name": 17}
    assert lines.count == 9
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(done)]
    assert max(decided for decided, _ in steps) <= 5, steps  # a slice, topics of any name, a slice
    assert max(written for _, written in steps) <= 2, steps
