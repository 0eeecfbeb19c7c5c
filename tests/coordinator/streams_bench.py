"""The bench of `consumer_bench` with members of streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kwire.base.errors import KafkaError
from kwire.codec.messages.streams_group_heartbeat_request import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kwire.coordinator.groups.streams.checks import check_request
from kwire.coordinator.groups.streams.group import StreamsGroup
from kwire.coordinator.runtime.machine import Caller, settle
from tests.coordinator.consumer_bench import LONG_MS, ConsumerBench

Tasks = Mapping[str, list[int]]


def reading(*topics: str, changelog: str = "", epoch: int = 0) -> Topology:
    """A topology of one subtopology that reads topics."""
    changelogs = [TopicInfo(name=changelog)] if changelog else []
    part = Subtopology(subtopology_id="0", source_topics=list(topics), state_changelog_topics=changelogs)
    return Topology(epoch=epoch, subtopologies=[part])


class StreamsBench(ConsumerBench):
    """A shard with one streams group under test. Its topic ``t`` has 4 partitions."""

    def set_topics(self, **counts: int) -> None:
        super().set_topics(**counts)
        self.shard.update_topics(self.topics(), list(counts), new=True)

    @property
    def streams(self) -> StreamsGroup:
        found = self.shard.groups.find(self.group)
        assert isinstance(found, StreamsGroup)
        return found

    def stream(
        self, member: str, epoch: int, active: Tasks | None = None, standby: Tasks | None = None, **fields: Any
    ) -> Any:
        """Send one heartbeat. Returns the response, or the error as a response. Timers that are due fire afterwards."""
        if active is not None:
            fields["active_tasks"], fields["standby_tasks"] = _ids(active), _ids(standby or {})
            fields["warmup_tasks"] = []
        if (endpoint := fields.pop("endpoint", None)) is not None:
            fields["user_endpoint"] = Endpoint(host=endpoint, port=1)
        request = StreamsGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **fields)
        try:
            check_request(request)
            out = self.shard.streams.heartbeat(request, Caller("c", "/h", 0), self.now)
            settle(out, self.now, self._append, self._apply)
        except KafkaError as error:
            return SimpleNamespace(error_code=error.code, message=error.message)
        if self.refuse is None:
            self.tick()
        assert out.response is not None
        self.missing = out.response.missing_topics
        return out.response.response

    def arrive(self, member: str, topology: Topology | None = None, **fields: Any) -> Any:
        """Join the group. Each member is a process unless ``process_id`` is given."""
        fields.setdefault("process_id", f"p{member}")
        fields.setdefault("rebalance_timeout_ms", LONG_MS)
        return self.stream(member, 0, {}, topology=topology or reading("t"), **fields)


def active_of(response: Any) -> dict[str, list[int]]:
    """The active tasks in a response."""
    return {one.subtopology_id: one.partitions for one in response.active_tasks}


def standby_of(response: Any) -> dict[str, list[int]]:
    """The standby tasks in a response."""
    return {one.subtopology_id: one.partitions for one in response.standby_tasks}


def _ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=list(partitions)) for one, partitions in tasks.items()]
