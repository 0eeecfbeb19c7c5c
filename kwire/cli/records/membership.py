"""`Member`: ``kwire consume --group`` as a member of a consumer group (KIP-848): the coordinator assigns partitions,
heartbeats keep them, and offsets are committed for what has been written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import Partition
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.protocol import ApiKey

_COMMIT_VERSION_MAX: Final = 9
"""The last version of OffsetCommit that names topics."""
_COMMITS_MAX: Final = 50
_JOIN, _LEAVE = 0, -1
_REBALANCE_TIMEOUT_MS: Final = 60_000
_UNSETTLED_S: Final = 0.2
"""Seconds between heartbeats while there is no assignment, or another one."""
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
"""The coordinator has given the member's partitions to others: it joins again."""


class Member:
    """A member of ``group`` that wants ``topics``. `join`, then `run` in a task of its own; ``partitions`` is what it
    has, and ``changed`` is set when that is no longer what it was."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        self.partitions: list[Partition] = []
        self.changed = asyncio.Event()
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        self._id = uuid_to_text(random_uuid(Doors().random))
        self._epoch = _JOIN
        self._interval_s = 0.0
        self._names: dict[bytes, str] = {}
        self._wanted: list[Partition] = []

    async def join(self) -> None:
        """Become a member. `CommandError`, also if the broker has no KIP-848."""
        if not await self._cluster.has(ApiKey.CONSUMER_GROUP_HEARTBEAT):
            raise CommandError("--group needs brokers with the consumer group protocol of KIP-848 (Apache Kafka 4.0)")
        response = await self._cluster.metadata(self._topics)
        for topic in response.topics:
            check(topic.error_code, f"topic {topic.name}")
            self._names[topic.topic_id] = topic.name
        await self._heartbeat(full=True)

    async def run(self) -> None:
        """Send heartbeats for ever. `CommandError` if the group cannot be kept."""
        while True:
            settled = self._wanted and self._wanted == self.partitions
            await asyncio.sleep(self._interval_s if settled else min(self._interval_s, _UNSETTLED_S))
            await self._heartbeat()

    async def take(self) -> list[Partition]:
        """Take what the coordinator has assigned, after offsets of what the member gives up have been committed."""
        self.changed.clear()
        self.partitions = list(self._wanted)
        await self._heartbeat(full=True)
        return self.partitions

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the offsets of the next records; nothing if the coordinator has given the partitions to others, who
        read these records again. `CommandError`."""
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            )
        if not by_topic:
            return
        topics = [OffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in by_topic.items()]
        code = int(ErrorCode.STALE_MEMBER_EPOCH)
        for _ in range(_COMMITS_MAX):
            code = await self._committed(topics)
            if code != ErrorCode.STALE_MEMBER_EPOCH:
                break
            await asyncio.sleep(_UNSETTLED_S)  # a heartbeat brings the epoch
        if code not in _FENCED:
            check(code, f"group {self._group}: commit")

    async def _committed(self, topics: list[OffsetCommitRequestTopic]) -> int:
        """The outcome of a commit."""
        request = OffsetCommitRequest(
            group_id=self._group, generation_id_or_member_epoch=self._epoch, member_id=self._id, topics=topics
        )
        self._cluster.extend()
        return _commit_error(
            await self._cluster.at_coordinator(self._group, request, _commit_error, max_version=_COMMIT_VERSION_MAX)
        )

    async def leave(self) -> None:
        """Leave the group, so that others get the partitions at once."""
        if self._epoch != _JOIN:
            await self._sent(
                ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self._id, member_epoch=_LEAVE)
            )

    async def _heartbeat(self, *, full: bool = False) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self._id, member_epoch=self._epoch)
        if full or self._epoch == _JOIN:
            request.rebalance_timeout_ms = _REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self._topics
            request.topic_partitions = self._by_id(self.partitions)
        response = await self._sent(request)
        if response.error_code in _FENCED:
            self._epoch = _JOIN
            self._assign([])
            self.partitions = []
            self._interval_s = 0.0
            return
        check(response.error_code, f"group {self._group}", response.error_message)
        self._epoch = response.member_epoch
        self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._assign(
                sorted(
                    (self._names[topic.topic_id], index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                )
            )

    async def _sent(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        self._cluster.extend()
        return await self._cluster.at_coordinator(self._group, request, lambda response: int(response.error_code))

    def _assign(self, wanted: list[Partition]) -> None:
        self._wanted = wanted
        if wanted != self.partitions:
            self.changed.set()

    def _by_id(self, partitions: Iterable[Partition]) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        return [TopicPartitions(topic_id=ids[topic], partitions=each) for topic, each in by_topic.items()]


def _commit_error(response: Any) -> int:
    return next((int(each.error_code) for topic in response.topics for each in topic.partitions if each.error_code), 0)
