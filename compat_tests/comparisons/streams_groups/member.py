"""A member of a streams group, made by hand: raw heartbeats, so that tests decide when it sends one."""

from __future__ import annotations

from typing import Any

from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.codec.messages.streams_group_describe_response import DescribedGroup
from kwire.codec.messages.streams_group_heartbeat_request import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


class Member:
    """A member of a streams group: two partitions are counted by way of a repartition topic."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self._group, self._topic = group, topic
        self._epoch = 0
        self._connect(broker)

    def _connect(self, broker: Broker) -> None:
        self._client = client = WireClient(broker.bootstrap, client_id="client", timeout_s=30)
        request = FindCoordinatorRequest(key=self._group)
        wait_until(lambda: client.call(request, 1).error_code == 0, 30, "the coordinator", 0.1)

    def move(self, broker: Broker) -> None:
        """Go on with another broker, which has the group."""
        self._client.close()
        self._connect(broker)

    def topology(self) -> Topology:
        """What the member sends when it joins."""
        repartition, changelog = f"{self._group}-by-word-repartition", f"{self._group}-counts-changelog"
        compact = [KeyValue(key="cleanup.policy", value="compact")]
        return Topology(
            epoch=3,
            subtopologies=[
                Subtopology(subtopology_id="0", source_topics=[self._topic], repartition_sink_topics=[repartition]),
                Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=[TopicInfo(name=repartition)],
                    state_changelog_topics=[TopicInfo(name=changelog, topic_configs=compact)],
                ),
            ],
        )

    def join(self) -> None:
        """Join, and wait for the tasks. The member's next heartbeats report them."""
        tasks: list[TaskIds] = []
        response = self._first_beat()

        def has_tasks() -> bool:
            nonlocal tasks, response
            if response.active_tasks:
                tasks = [
                    TaskIds(subtopology_id=one.subtopology_id, partitions=one.partitions)
                    for one in response.active_tasks
                ]
                return True
            response = self._beat()
            return False

        wait_until(has_tasks, 30, "tasks", 0.2)
        self._beat(active_tasks=tasks, standby_tasks=[], warmup_tasks=[])

    def go_on(self) -> Any:
        """Send a heartbeat that reports nothing new; the response."""
        return self._beat()

    def described(self) -> DescribedGroup:
        """The group in StreamsGroupDescribe."""
        request = StreamsGroupDescribeRequest(group_ids=[self._group])

        def loaded() -> bool:
            return bool(self._client.call(request, 0).groups[0].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        wait_until(loaded, 30, "the group", 0.1)
        group: DescribedGroup = self._client.call(request, 0).groups[0]
        return group

    def commit(self, offset: int) -> None:
        """Commit an offset of the first partition."""
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
        request = OffsetCommitRequest(
            group_id=self._group,
            member_id="member",
            generation_id_or_member_epoch=self._epoch,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=partitions)],
        )
        assert self._client.call(request, 9).topics[0].partitions[0].error_code == 0

    def leave(self) -> None:
        """Leave the group."""
        self._epoch = -1
        self._beat()
        self._client.close()

    def _first_beat(self) -> Any:
        """Join. Until its coordinator has heard of a new source topic, Apache Kafka fails for members with endpoints.

        It then answers UNKNOWN_SERVER_ERROR: EndpointToPartitionsManager takes the configured topology for granted.
        """
        response: Any = None

        def joined() -> bool:
            nonlocal response
            response = self._sent(
                rebalance_timeout_ms=60_000,
                topology=self.topology(),
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                process_id="process",
                user_endpoint=Endpoint(host="host.example", port=8080),
                client_tags=[KeyValue(key="zone", value="z1")],
            )
            return bool(response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR)

        wait_until(joined, 30, "the source topic", 0.1)
        return self._accepted(response)

    def _beat(self, **fields: Any) -> Any:
        return self._accepted(self._sent(**fields))

    def _sent(self, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group, member_id="member", member_epoch=self._epoch, **fields
        )
        response = self._client.call(request, 0)
        while response.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            response = self._client.call(request, 0)
        return response

    def _accepted(self, response: Any) -> Any:
        assert response.error_code == ErrorCode.NONE, response
        self._epoch = response.member_epoch
        return response
