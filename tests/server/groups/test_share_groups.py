"""Share groups on a real broker: partitions become known to the share coordinators in the background (KIP-932)."""

from __future__ import annotations

from typing import Any

from harness.raw_client import RawClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.read_share_group_state_summary_request import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kwire.codec.messages.share_group_describe_request import ShareGroupDescribeRequest
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.server.cluster import Cluster
from tests.server.groups.test_streams_groups import coordinator, create, until

ONE_BROKER: dict[str, Any] = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "share_coordinator_state_topic_num_partitions": 2,
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
    "group_share_min_assignment_interval_ms": 0,
    "group_share_assignment_interval_ms": 0,
}


async def test_a_member_gets_partitions_once_their_state_is_written(cluster: Cluster) -> None:
    client = await cluster.start(1, **ONE_BROKER)
    await create(client, "input")
    await coordinator(client, "g")

    async def joins() -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["input"]
        )
        answer = await client.call(request, 1)
        return answer if answer.error_code == 0 else None

    epoch = (await until(joins, "a member")).member_epoch

    async def gets_partitions() -> Any:
        nonlocal epoch
        answer = await client.call(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), 1)
        epoch = answer.member_epoch
        return answer.assignment and answer.assignment.topic_partitions

    (assigned,) = await until(gets_partitions, "the partitions")
    assert assigned.partitions == [0, 1]
    (group,) = (await client.call(ShareGroupDescribeRequest(group_ids=["g"]), 1)).groups
    (member,) = group.members
    assert [topic.topic_name for topic in member.assignment.topic_partitions] == ["input"]

    async def deleted() -> int:
        (result,) = (await client.call(DeleteGroupsRequest(groups_names=["g"]), 2)).results
        return int(result.error_code)

    assert await deleted() == ErrorCode.NON_EMPTY_GROUP
    leaving = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
    assert (await client.call(leaving, 1)).error_code == 0
    assert len(await states(client, assigned.topic_id)) == 2
    assert await deleted() == 0
    assert await states(client, assigned.topic_id) == []
    assert await deleted() == ErrorCode.GROUP_ID_NOT_FOUND


async def states(client: RawClient, topic_id: bytes) -> list[int]:
    """The partitions of the topic whose state the share coordinator has."""
    partitions = [PartitionData(partition=index, leader_epoch=0) for index in (0, 1)]
    request = ReadShareGroupStateSummaryRequest(
        group_id="g", topics=[ReadStateSummaryData(topic_id=topic_id, partitions=partitions)]
    )
    (result,) = (await client.call(request, 0)).results
    return [each.partition for each in result.partitions if each.error_code == 0 and each.state_epoch > 0]
