"""Start offsets of share groups: described, set and deleted, with the same responses from both brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import wait_until
from compat_tests.comparisons.share_state.requests import ShareStates
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.base.uuids import ZERO_UUID
from kwire.codec.messages import alter_share_group_offsets_request as alters
from kwire.codec.messages import delete_share_group_offsets_request as deletes
from kwire.codec.messages import describe_share_group_offsets_request as describes
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


class Offsets:
    """The offsets of one group. Topics are named ``t`` in what is returned."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self.client = WireClient(broker.bootstrap)
        self.group = group
        self.topic = topic

    def describe(self, *topics: tuple[str, list[int]], group: str | None = None, version: int = 1) -> dict[str, Any]:
        """DescribeShareGroupOffsets; without topics of all."""
        named = [
            describes.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in topics
        ]
        asked = describes.DescribeShareGroupOffsetsRequestGroup(
            group_id=self.group if group is None else group, topics=named or None
        )
        (found,) = self.client.call(describes.DescribeShareGroupOffsetsRequest(groups=[asked]), version).groups
        return {
            "error": ErrorCode(found.error_code).name,
            "topics": {
                self._short(topic.topic_name): [
                    topic.topic_id != ZERO_UUID,
                    sorted(
                        [
                            each.partition_index,
                            ErrorCode(each.error_code).name,
                            each.start_offset,
                            each.leader_epoch,
                            each.lag,
                        ]
                        for each in topic.partitions
                    ),
                ]
                for topic in found.topics
            },
        }

    def alter(self, *topics: tuple[str, list[tuple[int, int]]], group: str | None = None) -> dict[str, Any]:
        """AlterShareGroupOffsets."""
        named = [
            alters.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    alters.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for index, offset in partitions
                ],
            )
            for name, partitions in topics
        ]
        request = alters.AlterShareGroupOffsetsRequest(group_id=self.group if group is None else group, topics=named)
        found = self.client.call(request, 0)
        return {
            "error": ErrorCode(found.error_code).name,
            "topics": {
                self._short(topic.topic_name): [
                    topic.topic_id != ZERO_UUID,
                    sorted([each.partition_index, ErrorCode(each.error_code).name] for each in topic.partitions),
                ]
                for topic in found.responses
            },
        }

    def delete(self, *names: str, group: str | None = None) -> dict[str, Any]:
        """DeleteShareGroupOffsets."""
        topics = [deletes.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        request = deletes.DeleteShareGroupOffsetsRequest(group_id=self.group if group is None else group, topics=topics)
        found = self.client.call(request, 0)
        return {
            "error": ErrorCode(found.error_code).name,
            "topics": {
                self._short(topic.topic_name): [topic.topic_id != ZERO_UUID, ErrorCode(topic.error_code).name]
                for topic in found.responses
            },
        }

    def heartbeat(self, epoch: int) -> str:
        """ShareGroupHeartbeat of a member that subscribes to the topic: the name of the error."""
        names = [self.topic] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=names
        )
        return ErrorCode(self.client.call(request, 1).error_code).name

    def _short(self, name: str) -> str:
        return "t" if name == self.topic else name


@pytest.fixture
def offsets(broker: Broker, make_topic: Callable[..., str], new_name: Names) -> Iterator[Offsets]:
    """A group of the test's own with a topic of three partitions, whose coordinators are there."""
    topic, group = make_topic(3), new_name("group")
    states = ShareStates(broker, group, topic)
    made = Offsets(broker, group, topic)
    try:
        wait_until(lambda: all(states.find(states.key(index)) == "NONE" for index in range(3)))
        wait_until(lambda: all(states.delete(index)["error"] == "NONE" for index in range(3)))
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        wait_until(lambda: not made.client.call(request, 4).coordinators[0].error_code)
        wait_until(lambda: made.describe()["error"] == "NONE")
        yield made
    finally:
        states.client.close()
        made.client.close()


def test_offsets_are_set_described_and_deleted(offsets: Offsets, observe: Observations) -> None:
    topic = offsets.topic
    observe("nothing", offsets.describe())
    observe("nothing of a topic", offsets.describe((topic, [0, 1]), ("no-such-topic", [0]), (topic + "x", [])))
    observe("delete nothing", offsets.delete(topic))
    observe("set", offsets.alter((topic, [(0, 5), (1, 0), (9, 1)]), ("no-such-topic", [(0, 1)])))
    observe("all", offsets.describe())
    observe("all without lag", offsets.describe(version=0))
    observe("some", offsets.describe((topic, [0, 2, 9])))
    observe("set again", offsets.alter((topic, [(0, 7)])))
    observe("all then", offsets.describe())
    observe("delete", offsets.delete(topic, "no-such-topic"))
    observe("all after it", offsets.describe())
    observe("delete again", offsets.delete(topic))
    observe("nothing to set", offsets.alter())
    observe("no topics to delete", offsets.delete())


def test_a_group_with_members(offsets: Offsets, observe: Observations) -> None:
    topic = offsets.topic
    assert offsets.heartbeat(0) == "NONE"
    wait_until(lambda: set(offsets.describe()["topics"]) == {"t"})
    observe("described", offsets.describe())
    observe("set", offsets.alter((topic, [(0, 5)])))
    observe("delete", offsets.delete(topic))
    assert offsets.heartbeat(-1) == "NONE"
    observe("set without members", offsets.alter((topic, [(0, 5)])))
    observe("described then", offsets.describe((topic, [0])))
    observe("deleted then", offsets.delete(topic))


def test_groups_that_are_none(offsets: Offsets, observe: Observations) -> None:
    topic = offsets.topic
    committed = OffsetCommitRequestTopic(name=topic, partitions=[OffsetCommitRequestPartition(committed_offset=5)])
    classic = f"{offsets.group}-classic"
    request = OffsetCommitRequest(group_id=classic, topics=[committed])
    wait_until(lambda: not offsets.client.call(request, 9).topics[0].partitions[0].error_code)
    for name, group in (("empty", ""), ("classic", classic)):
        observe(f"describe {name}", offsets.describe(group=group))
        if group:  # without a name, Kafka fails with UNKNOWN_SERVER_ERROR
            observe(f"describe a topic of {name}", offsets.describe((topic, [0]), group=group))
        observe(f"set {name}", offsets.alter((topic, [(0, 1)]), group=group))
        observe(f"delete {name}", offsets.delete(topic, group=group))
