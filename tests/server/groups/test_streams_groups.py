"""Streams groups on real brokers: what depends on the cluster, and internal topics in the background (KIP-1071)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.codec.messages.streams_group_heartbeat_request import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from kwire.codec.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.cluster import Cluster

AT_ONCE: dict[str, Any] = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
MISSING_INTERNAL_TOPICS = 3


async def until(condition: Callable[[], Any], what: str) -> Any:
    """The first true result of an operation."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await condition()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert found, what
    return found


async def create(client: RawClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    answer = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    assert answer.topics[0].error_code == 0


def joining(group: str, member: str, **configs: str) -> StreamsGroupHeartbeatRequest:
    """A member whose topology reads ``input`` and has a changelog topic."""
    entries = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    changelog = TopicInfo(name="changelog", topic_configs=entries)
    part = Subtopology(subtopology_id="0", source_topics=["input"], state_changelog_topics=[changelog])
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=60_000,
        topology=Topology(subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


async def coordinator(client: RawClient, group: str) -> int:
    """The broker that coordinates a group."""

    async def found() -> Any:
        return await client.call(FindCoordinatorRequest(key=group), 2)

    async def is_known() -> bool:
        return bool((await found()).error_code == 0)

    await until(is_known, "a coordinator")
    node_id: int = (await found()).node_id
    return node_id


async def joined(client: RawClient, request: StreamsGroupHeartbeatRequest) -> Any:
    """The response, once the coordinator is loaded."""

    async def accepted() -> Any:
        answer = await client.call(request, 0)
        busy = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return None if answer.error_code in busy else answer

    return await until(accepted, "a response of the coordinator")


async def test_a_coordinator_that_is_not_the_controller_has_internal_topics_created(cluster: Cluster) -> None:
    settings: dict[str, Any] = {"offsets_topic_num_partitions": 8, "offsets_topic_replication_factor": 1, **AT_ONCE}
    clients = {1: await cluster.start(1, **settings), 2: await cluster.start(2, **settings)}
    await create(clients[1], "input")
    for number in range(50):
        group = f"g{number}"
        if await coordinator(clients[1], group) == 2:
            break
    answer = await joined(clients[2], joining(group, "m"))
    assert [one.status_code for one in answer.status] == [MISSING_INTERNAL_TOPICS]

    async def gets_tasks() -> Any:
        beat = StreamsGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=answer.member_epoch)
        return (await clients[2].call(beat, 0)).active_tasks

    tasks = await until(gets_tasks, "the tasks")
    assert [(one.subtopology_id, one.partitions) for one in tasks] == [("0", [0, 1])]


async def test_members_are_told_why_an_internal_topic_cannot_be_created(cluster: Cluster) -> None:
    client = await cluster.start(1, **AT_ONCE)
    await create(client, "input")
    await coordinator(client, "g")
    answer = await joined(client, joining("g", "m", retention_ms="long"))

    async def reason() -> str:
        beat = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=answer.member_epoch)
        statuses = (await client.call(beat, 0)).status
        details = [one.status_detail for one in statuses if one.status_code == MISSING_INTERNAL_TOPICS]
        return details[0] if details and "Creation failed" in details[0] else ""

    detail = await until(reason, "the reason")
    assert detail.startswith("Internal topics are missing: changelog; Creation failed: changelog (")
    assert "retention.ms" in detail


async def test_a_cluster_that_was_upgraded_needs_the_feature(cluster: Cluster) -> None:
    """An older broker knows no `streams.version`; an update finalises it."""
    client = await cluster.start(1, "streams.version=0-0", **AT_ONCE)
    await create(client, "input")
    await coordinator(client, "g")
    assert (await client.call(joining("g", "m"), 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    described = await client.call(StreamsGroupDescribeRequest(group_ids=["g"]), 0)
    assert [group.error_code for group in described.groups] == [ErrorCode.UNSUPPORTED_VERSION]
    await cluster.brokers[1].stop()
    client = await cluster.start(1, **AT_ONCE)
    assert (await client.call(joining("g", "m"), 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    update = FeatureUpdateKey(feature="streams.version", max_version_level=1, upgrade_type=1)
    assert (await client.call(UpdateFeaturesRequest(feature_updates=[update]), 1)).error_code == 0
    assert (await joined(client, joining("g", "m"))).error_code == 0


async def test_a_group_survives_a_restart_of_its_coordinator(cluster: Cluster) -> None:
    client = await cluster.start(1, **AT_ONCE)
    await create(client, "input")
    await create(client, "changelog")
    await coordinator(client, "g")
    answer = await joined(client, joining("g", "m"))
    assert answer.active_tasks
    await cluster.brokers[1].stop()
    client = await cluster.start(1, **AT_ONCE)
    beat = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=answer.member_epoch)
    again = await joined(client, beat)
    assert (again.error_code, again.member_epoch, again.active_tasks) == (0, answer.member_epoch, None)
    described = (await client.call(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups[0]
    assert described.group_state == "Stable"
