"""OffsetCommit, OffsetFetch, OffsetDelete and the retention of committed offsets, for groups of all types.

The type of a group decides only which members may do this (`group.Group`). The handlers have checked before that the
topics exist, and filled in their names and ids.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.uuids import ZERO_UUID
from kwire.codec.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
from kwire.codec.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.codec.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kwire.codec.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.codec.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.classic.protocol import ClassicProtocol
from kwire.coordinator.groups.group import Group, GroupCounters, Groups, GroupSettings
from kwire.coordinator.groups.offsets.store import OffsetStore
from kwire.coordinator.groups.records import NO_TIMESTAMP, CommittedOffset
from kwire.coordinator.runtime.java_hash import timeline_map_order, timeline_map_order_of_numbers, utf16_length
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result

RECORDS_PER_STEP: Final = 250
"""Records of committed offsets that are made in one turn of the event loop: two milliseconds."""

GROUP_ID_NOT_FOUND_SINCE = 9
"""The version of OffsetCommit and OffsetFetch from which on clients understand the errors of KIP-848."""

_INVALID_OFFSET = -1
_MINUTE_MS = 60_000


class OffsetProtocol:
    """The operations on one shard's committed offsets."""

    def __init__(
        self,
        groups: Groups,
        offsets: OffsetStore,
        classic: ClassicProtocol,
        settings: GroupSettings,
        counters: GroupCounters,
    ) -> None:
        self._counters = counters
        self._groups = groups
        self._offsets = offsets
        self._classic = classic
        self._settings = settings

    # -- OffsetCommit --------------------------------------------------------------------------------------------------

    def commit(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        out: Result[OffsetCommitResponse],
        now: Instant,
        made: Sequence[CoordinatorRecord | None],
    ) -> None:
        """OffsetCommit, with the records of all partitions if they are made already (`records_of`). Raises KafkaError
        for all partitions if the member may not commit."""
        self._check_commit(request, caller.api_version)
        group = self._groups.find(request.group_id)
        if isinstance(group, ClassicGroup):
            self._classic.committed(group, request.member_id, now)
        records = iter(made) if made else _records(request, now.wall_ms, self._settings.offset_metadata_max_bytes)
        topics = []
        for topic in request.topics:
            responses = []
            for partition in topic.partitions:
                if group is not None:
                    epoch, index = request.generation_id_or_member_epoch, partition.partition_index
                    group.check_partition_commit(request.member_id, epoch, topic.name, topic.topic_id, index)
                record = next(records)
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE if record is None else ErrorCode.NONE
                if record is not None:
                    out.records.append(record)
                responses.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses))
        self._counters.offset_commits += len(out.records)
        out.response = OffsetCommitResponse(topics=topics)

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> None:
        group = self._groups.find(request.group_id)
        epoch = request.generation_id_or_member_epoch
        if group is not None:
            group.check_offset_commit(request.member_id, request.group_instance_id, epoch, version=version)
        elif epoch >= 0:
            known = version >= GROUP_ID_NOT_FOUND_SINCE
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)

    # -- OffsetFetch ---------------------------------------------------------------------------------------------------

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """OffsetFetch: the committed offsets of the requested partitions, or of all (``topics`` None). A partition
        without one has offset -1. Raises KafkaError if the member may not read them."""
        group = self._groups.find(request.group_id)
        if group is not None:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        if request.topics is None:
            topics = self._fetch_all(request.group_id, group, require_stable)
        else:
            topics = [self._fetch_topic(request.group_id, group, topic, require_stable) for topic in request.topics]
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _fetch_topic(
        self, group_id: str, group: Group | None, topic: OffsetFetchRequestTopics, require_stable: bool
    ) -> OffsetFetchResponseTopics:
        known = self._offsets.topics(group_id).get(topic.name, {}) if group is not None else {}
        partitions = []
        for index in topic.partition_indexes:
            committed = known.get(index)
            if group is not None and require_stable and self._offsets.is_pending(group_id, topic.name, index):
                partitions.append(_without_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif committed is None or _of_another_topic(committed, topic.topic_id):
                partitions.append(_without_offset(index, ErrorCode.NONE))
            else:
                partitions.append(_with_offset(index, committed))
        return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)

    def _fetch_all(self, group_id: str, group: Group | None, require_stable: bool) -> list[OffsetFetchResponseTopics]:
        if group is None:
            return []
        topics = []
        found = self._offsets.topics(group_id)
        for topic in timeline_map_order(found):
            partitions = []
            for index in timeline_map_order_of_numbers(found[topic]):
                if require_stable and self._offsets.is_pending(group_id, topic, index):
                    partitions.append(_without_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    partitions.append(_with_offset(index, found[topic][index]))
            topics.append(OffsetFetchResponseTopics(name=topic, partitions=partitions))
        return topics

    # -- OffsetDelete, DeleteGroups, deleted topics --------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest, out: Result[OffsetDeleteResponse]) -> None:
        """OffsetDelete, for topics that the group is not subscribed to. Raises KafkaError for an error of the group."""
        group = self._groups.find(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        out.response = OffsetDeleteResponse(topics=[self._delete_topic(group, topic, out) for topic in request.topics])
        self._counters.offset_deletions += len(out.records)

    def _delete_topic(
        self, group: Group, topic: OffsetDeleteRequestTopic, out: Result[Any]
    ) -> OffsetDeleteResponseTopic:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic.name) else ErrorCode.NONE
        responses = []
        for partition in topic.partitions:
            index = partition.partition_index
            if error is ErrorCode.NONE and self._offsets.has_any(group.group_id, topic.name, index):
                out.records.append(group_records.offset_tombstone(group.group_id, topic.name, index))
            responses.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
        return OffsetDeleteResponseTopic(name=topic.name, partitions=responses)

    def delete_group(self, group_id: str, out: Result[Any]) -> None:
        """Delete an empty group with its committed offsets, including those in open transactions. Raises KafkaError."""
        group = self._groups.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_delete()
        for topic, partition in self._offsets.partitions(group_id):
            out.records.append(group_records.offset_tombstone(group_id, topic, partition))
        self._counters.offset_deletions += len(out.records)
        out.records.extend(group.tombstones())

    def forget_partitions(self, deleted: dict[str, frozenset[int]], out: Result[Any]) -> None:
        """Delete the committed offsets of deleted topics (topic -> its partitions)."""
        for group_id in dict.fromkeys((*self._offsets.group_ids(), *self._offsets.pending_group_ids())):
            for topic, partition in self._offsets.partitions_of(group_id, deleted):
                if partition in deleted[topic]:
                    out.records.append(group_records.offset_tombstone(group_id, topic, partition))

    # -- retention -----------------------------------------------------------------------------------------------------

    def expire(self, groups: Iterable[Group], out: Result[Any], now: Instant) -> None:
        """Delete committed offsets past their retention, and groups that are empty and without committed offsets."""
        for group in groups:
            if self._groups.holds(group) and group.expires and self._expire_group(group, out, now) and group.is_empty:
                out.records.extend(group.tombstones())

    def _expire_group(self, group: Group, out: Result[Any], now: Instant) -> bool:
        """Delete the expired offsets of one group. Returns whether none is left."""
        topics = self._offsets.topics(group.group_id)
        if not topics:
            return not self._offsets.has_open_transaction(group.group_id)
        base = group.offset_expiry_base()
        if base is None:
            return False
        retention_ms = self._settings.offsets_retention_minutes * _MINUTE_MS
        nothing_left = True
        for topic, partition, committed in self._offsets.walk(group.group_id):
            if committed.expire_ms != NO_TIMESTAMP:
                expired = now.wall_ms >= committed.expire_ms
            else:
                expired = now.wall_ms - base(committed) >= retention_ms
            if (
                not expired
                or group.is_subscribed_to(topic)
                or self._offsets.is_pending(group.group_id, topic, partition)
            ):
                nothing_left = False
            else:
                out.records.append(group_records.offset_tombstone(group.group_id, topic, partition))
                self._counters.offset_expirations += 1
        return nothing_left


def records_of(
    request: OffsetCommitRequest, wall_ms: int, metadata_max: int
) -> Generator[None, None, list[CoordinatorRecord | None]]:
    """The records of a commit of very many offsets, made in steps; None for an offset whose metadata are too large.
    They do not depend on the state of the group, which `OffsetProtocol.commit` checks when it takes them."""
    made = []
    for number, record in enumerate(_records(request, wall_ms, metadata_max), 1):
        made.append(record)
        if number % RECORDS_PER_STEP == 0:
            yield
    return made


def _records(request: OffsetCommitRequest, now_ms: int, metadata_max: int) -> Iterator[CoordinatorRecord | None]:
    expire_ms = NO_TIMESTAMP if request.retention_time_ms == -1 else now_ms + request.retention_time_ms
    for topic in request.topics:
        for partition in topic.partitions:
            metadata = partition.committed_metadata
            if metadata is not None and utf16_length(metadata) > metadata_max:
                yield None
                continue
            committed = _from_request(partition, topic.topic_id, now_ms, expire_ms)
            yield group_records.offset_commit(request.group_id, topic.name, partition.partition_index, committed)


def _from_request(
    partition: OffsetCommitRequestPartition, topic_id: bytes, now_ms: int, expire_ms: int
) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_ms=now_ms,
        expire_ms=expire_ms,
        topic_id=topic_id,
    )


def _of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """Whether the offset was committed for an earlier topic of this name, which was deleted since."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _without_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=_INVALID_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )


def _with_offset(index: int, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
