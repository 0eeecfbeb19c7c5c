"""A group shard with a virtual clock and a log in memory, and the requests of clients."""

from __future__ import annotations

import random
import uuid
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import ClusterImage
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupCounters
from kwire.coordinator.groups.shard import GroupShard
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result, settle

NO_TOPICS = Topics(ClusterImage(), lambda _: {})
WALL_MS = 1_800_000_000_000


@dataclass
class Settings:
    """The properties that the shard reads."""

    group_consumer_assignment_interval_ms: int = 0
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6_000
    group_share_assignment_interval_ms: int = 0
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_initialize_retry_interval_ms: int = 30_000
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_max_size: int = 200
    group_share_min_assignment_interval_ms: int = 0
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_session_timeout_ms: int = 45_000
    group_streams_assignment_interval_ms: int = 0
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_initial_rebalance_delay_ms: int = 0
    group_streams_max_assignment_interval_ms: int = 15_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_max_size: int = 2**31 - 1
    group_streams_max_standby_replicas: int = 2
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_num_standby_replicas: int = 0
    group_streams_session_timeout_ms: int = 45_000
    offset_metadata_max_bytes: int = 4096
    offsets_retention_minutes: int = 10_080


@dataclass
class Call:
    """A request that was sent, and its response once there is one."""

    response: Any = None

    @property
    def parked(self) -> bool:
        return self.response is None

    @property
    def error(self) -> ErrorCode:
        assert self.response is not None, "still parked"
        return ErrorCode(self.response.error_code)


@dataclass
class Bench:
    """One shard with one group under test. ``refuse``: the error with which appends to the log fail."""

    settings: Settings = field(default_factory=Settings)
    seed: int = 1
    group: str = "g"

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now_ms = 0
        self.log: list[CoordinatorRecord] = []
        self.refuse: ErrorCode | None = None
        self.counters = GroupCounters()
        self.shard = self._new_shard()

    # -- time and log --------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def advance(self, ms: int) -> None:
        """Let time pass. Every timer fires at its deadline."""
        end = self.now_ms + ms
        while (wake := self.shard.timers.next_wake_ms()) is not None and wake <= end:
            self.now_ms = max(self.now_ms, wake)
            self.tick()
        self.now_ms = end

    def tick(self) -> None:
        """Fire the timers that are due."""
        while (due := self.shard.timers.pop_due(self.now_ms)) is not None:
            out: Result[Any] = Result()
            due[1](out, self.now)
            self.run(out)

    def reload(self) -> None:
        """Lose the leadership, become the leader again, and load the log."""
        self.run(self.shard.unload())
        self.shard = self._new_shard()
        for offset, record in enumerate(self.log):
            self.shard.apply(*record, offset, wall_ms=self.now.wall_ms)
        self.run(self.shard.loaded(self.now))

    def compact(self, end: int, *, tombstones: bool) -> None:
        """Clean the log up to a position: of each key only the last record stays, and of those with ``tombstones``
        also the ones without a value."""
        last = {bytes(record[0]): position for position, record in enumerate(self.log[:end])}
        self.log[:end] = [
            record
            for position, record in enumerate(self.log[:end])
            if last[bytes(record[0])] == position and (tombstones or record[1] is not None)
        ]

    def run(self, result: Result[Any] | Generator[None, None, Result[Any]], call: Call | None = None) -> Call:
        call = call or Call()
        if not isinstance(result, Result):
            result = outcome(result)
        settle(result, self.now, self._append, self._apply)
        if result.response is not None:
            assert call.parked
            call.response = result.response
        for waiter, response in result.replies:
            assert waiter.parked, "answered twice"
            waiter.response = response
        return call

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.settings, self._new_id, self.counters, self.topics())

    def _new_id(self) -> str:
        return str(uuid.UUID(bytes=self.random.randbytes(16), version=4))

    def topics(self) -> Topics:
        """The topics of the cluster: none here."""
        return NO_TOPICS

    def _append(self, records: list[CoordinatorRecord]) -> int:
        if self.refuse is not None:
            raise KafkaError(self.refuse)
        self.log.extend(records)
        return len(self.log) - len(records)

    def _apply(self, record: CoordinatorRecord, offset: int) -> None:
        self.shard.apply(*record, offset, wall_ms=self.now.wall_ms)

    # -- requests ------------------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        client: str = "c",
        tick: bool = True,
    ) -> Call:
        chosen = {"range": b"meta"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in chosen.items()],
        )
        call = Call()
        self.run(self.shard.join(request, Caller(client, "/127.0.0.1", version), call, self.now), call)
        if tick:
            self.tick()
        return call

    def join_dynamic(self, **settings: Any) -> Call:
        """Both steps of a dynamic member's first JoinGroup."""
        first = self.join(**settings)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.response.member_id, **settings)

    def sync(
        self, joined: Any, assignments: dict[str, bytes] | None = None, *, instance: str | None = None, **changes: Any
    ) -> Call:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "group_instance_id": instance,
            "protocol_type": joined.protocol_type,
            "protocol_name": joined.protocol_name,
            "assignments": [
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in (assignments or {}).items()
            ],
        } | changes
        call = Call()
        return self.run(self.shard.sync(SyncGroupRequest(**fields), call, self.now), call)

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.run(self.shard.heartbeat(request, self.now)).error

    def leave(self, *members: str | tuple[str, str | None]) -> list[ErrorCode]:
        pairs = [(member, None) if isinstance(member, str) else member for member in members]
        request = LeaveGroupRequest(
            group_id=self.group,
            members=[MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in pairs],
        )
        response = self.run(self.shard.leave(request, self.now)).response
        self.tick()
        assert response.error_code == ErrorCode.NONE
        return [ErrorCode(member.error_code) for member in response.members]

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        version: int = 9,
        metadata: str | None = "",
        retention_ms: int = -1,
        instance: str | None = None,
        topic_id: bytes = bytes(16),
    ) -> ErrorCode:
        """OffsetCommit. All partitions must have the same error, which is returned."""
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        try:
            result = self.shard.commit_offsets(request, Caller("c", "/127.0.0.1", version), self.now)
        except KafkaError as error:
            return error.code
        response = self.run(result).response
        codes = {p.error_code for t in response.topics for p in t.partitions}
        assert len(codes) == 1
        return ErrorCode(codes.pop())

    def committed(self, *, require_stable: bool = False) -> dict[tuple[str, int], int]:
        """All committed offsets of the group."""
        request = OffsetFetchRequestGroup(group_id=self.group, topics=None)
        response = self.run(self.shard.fetch_offsets(request, require_stable=require_stable)).response
        return {(t.name, p.partition_index): p.committed_offset for t in response.topics for p in t.partitions}

    def fetch(self, topic: str, partition: int, *, require_stable: bool = False, topic_id: bytes = bytes(16)) -> Any:
        request = OffsetFetchRequestGroup(
            group_id=self.group,
            topics=[OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])],
        )
        response = self.run(self.shard.fetch_offsets(request, require_stable=require_stable)).response
        return response.topics[0].partitions[0]

    # -- the state of the group ----------------------------------------------------------------------------------------

    @property
    def classic(self) -> ClassicGroup:
        group = self.shard.groups.find(self.group)
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        group = self.shard.groups.find(self.group)
        return "Dead" if group is None else group.state_name

    def stable(self, *calls: Call) -> list[Any]:
        """Complete the rebalance of the joined members. Member n is assigned b"n". Returns the JoinGroup responses."""
        joined = [call.response for call in calls]
        assert all(response is not None and response.error_code == 0 for response in joined)
        assignments = {response.member_id: str(n).encode() for n, response in enumerate(joined)}
        followers = [self.sync(response) for response in joined if response.member_id != response.leader]
        leader = next(response for response in joined if response.member_id == response.leader)
        self.sync(leader, assignments)
        assert all(not call.parked for call in followers)
        assert self.state == "Stable"
        return joined

    def stable_group(self, count: int = 1, **settings: Any) -> list[Any]:
        """A stable group of dynamic members."""
        ids = [self.join(tick=False, **settings).response.member_id for _ in range(count)]
        calls = [self.join(member_id, tick=False, **settings) for member_id in ids]
        self.tick()
        if any(call.parked for call in calls):
            self.advance(self.settings.group_initial_rebalance_delay_ms)
        return self.stable(*calls)

    def picture(self) -> Any:
        """All state that must be the same after the log is loaded again."""
        groups = {}
        for group in self.shard.groups:
            assert isinstance(group, ClassicGroup)
            name = group.protocol_name or ""
            groups[group.group_id] = {
                "state": group.state_name,
                "generation": group.generation,
                "protocol": (group.protocol_type, group.protocol_name),
                "leader": group.leader,
                "members": [
                    (
                        m.member_id,
                        m.instance_id,
                        m.client_id,
                        m.client_host,
                        m.rebalance_timeout_ms,
                        m.session_timeout_ms,
                        m.protocols.get(name),
                        m.assignment,
                    )
                    for m in group.members.values()
                ],
                "static": dict(group.static_ids),
                "subscribed": group.subscribed_topics,
            }
        offsets = {group_id: list(self.shard.offsets.walk(group_id)) for group_id in self.shard.offsets.group_ids()}
        return groups, offsets


def outcome(steps: Generator[None, None, Result[Any]]) -> Result[Any]:
    """The result of a long operation."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result[Any] = end.value
            return result
