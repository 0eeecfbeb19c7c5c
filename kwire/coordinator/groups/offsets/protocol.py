"""OffsetCommit, OffsetFetch, OffsetDelete and the retention of committed offsets, for groups of all types.

The type of a group decides only which members may do this (`group.Group`). The handlers have checked before that the
topics exist, and filled in their names and ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.uuids import ZERO_UUID
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
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
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup
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
from kwire.coordinator.runtime.java_hash import (
    string_hash,
    timeline_map_order,
    timeline_map_order_of_hashes,
    timeline_map_order_of_numbers,
    utf16_length,
)
from kwire.coordinator.runtime.long_operations import EstimatedPace, Steps
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result

RECORDS_PER_STEP: Final = 250
"""Records of committed offsets that are made in one turn of the event loop: two milliseconds."""

PARTITIONS_PER_PART: Final = 250
"""Partitions of one topic that a long operation examines before it looks whether its step is over."""

EXAMINED_US: Final = 2
"""What it takes to examine a group or a committed offset, about."""

TOMBSTONE_US: Final = 4
"""What it takes to make the tombstone of an offset, about."""

FETCHED_US: Final = 3
"""What it takes to find a committed offset and describe it, about."""

HASHED_US: Final = 2
"""What it takes to hash the name of a topic as Java does, about."""

GROUP_ID_NOT_FOUND_SINCE = 9
"""The version of OffsetCommit and OffsetFetch from which on clients understand the errors of KIP-848."""

_INVALID_OFFSET = -1
_NO_OFFSETS: Final[Mapping[int, CommittedOffset]] = {}
_NOTHING: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}
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
    ) -> None:
        """OffsetCommit. Raises KafkaError for all partitions if the member may not commit."""
        group = self._begin_commit(request, caller, now)
        records = _records(request, now.wall_ms, self._settings.offset_metadata_max_bytes)
        topics = []
        for topic in request.topics:
            responses = self._commit_some(request, group, topic, topic.partitions, records, out)
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses))
        self._counters.offset_commits += len(out.records)
        out.response = OffsetCommitResponse(topics=topics)

    def commit_in_steps(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        out: Result[OffsetCommitResponse],
        now: Instant,
        made: Sequence[CoordinatorRecord | None],
    ) -> Steps:
        """The same for very many partitions; ``made`` are their records if they are made already (`records_of`)."""
        group = self._begin_commit(request, caller, now)
        records = iter(made) if made else _records(request, now.wall_ms, self._settings.offset_metadata_max_bytes)
        pace = EstimatedPace()
        topics = []
        for topic in request.topics:
            responses: list[OffsetCommitResponsePartition] = []
            for start in range(0, len(topic.partitions), PARTITIONS_PER_PART):
                part = topic.partitions[start : start + PARTITIONS_PER_PART]
                responses += self._commit_some(request, group, topic, part, records, out)
                if pace.spent(len(part) * (EXAMINED_US if made else EXAMINED_US + TOMBSTONE_US)):
                    yield
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses))
        self._counters.offset_commits += len(out.records)
        out.response = OffsetCommitResponse(topics=topics)

    def _begin_commit(self, request: OffsetCommitRequest, caller: Caller, now: Instant) -> Group | None:
        """The group, if it exists. Raises KafkaError if the member may not commit."""
        self._check_commit(request, caller.api_version)
        group = self._groups.find(request.group_id)
        if isinstance(group, ClassicGroup):
            self._classic.committed(group, request.member_id, now)
        return group

    def _commit_some(
        self,
        request: OffsetCommitRequest,
        group: Group | None,
        topic: OffsetCommitRequestTopic,
        partitions: Sequence[OffsetCommitRequestPartition],
        records: Iterator[CoordinatorRecord | None],
        out: Result[OffsetCommitResponse],
    ) -> list[OffsetCommitResponsePartition]:
        """Commit the offsets of some partitions of a topic; the next of ``records`` are theirs."""
        responses = []
        for partition in partitions:
            if group is not None:
                epoch, index = request.generation_id_or_member_epoch, partition.partition_index
                group.check_partition_commit(request.member_id, epoch, topic.name, topic.topic_id, index)
            record = next(records)
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE if record is None else ErrorCode.NONE
            if record is not None:
                out.records.append(record)
            responses.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
        return responses

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
        known = self._readable(request)
        group_id = request.group_id
        is_pending = None
        if known is not None and require_stable and self._offsets.has_open_transaction(group_id):
            is_pending = partial(self._offsets.is_pending, group_id)
        topics = []
        if request.topics is not None:
            for topic in request.topics:
                part = (known or _NOTHING).get(topic.name, _NO_OFFSETS)
                fetched = _fetched(part, topic.name, topic.topic_id, topic.partition_indexes, is_pending)
                topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=fetched))
        elif known is not None:
            for name in timeline_map_order(known):
                indexes = timeline_map_order_of_numbers(known[name])
                fetched = _fetched(known[name], name, ZERO_UUID, indexes, is_pending)
                topics.append(OffsetFetchResponseTopics(name=name, partitions=fetched))
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    def fetch_in_steps(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Generator[None, None, OffsetFetchResponseGroup]:
        """The same for very many partitions."""
        readable = self._readable(request)
        is_pending = None
        if readable is not None and require_stable:
            pending = frozenset(self._offsets.pending(request.group_id))

            def is_pending(topic: str, index: int) -> bool:
                return (topic, index) in pending

        known = readable or _NOTHING
        pace = EstimatedPace()
        wanted: Iterable[tuple[str, bytes, Sequence[int]]]
        if request.topics is not None:
            wanted = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
        else:
            names = yield from _ordered(known, pace)
            wanted = ((name, ZERO_UUID, timeline_map_order_of_numbers(known[name])) for name in names)
        topics = []
        for name, topic_id, indexes in wanted:
            fetched: list[OffsetFetchResponsePartitions] = []
            for start in range(0, len(indexes), PARTITIONS_PER_PART):
                part = indexes[start : start + PARTITIONS_PER_PART]
                fetched += _fetched(known.get(name, _NO_OFFSETS), name, topic_id, part, is_pending)
                if pace.spent(len(part) * FETCHED_US):
                    yield
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=fetched))
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _readable(self, request: OffsetFetchRequestGroup) -> Mapping[str, Mapping[int, CommittedOffset]] | None:
        """The offsets of a request's group; None if there is no such group. Raises KafkaError if the member may not
        read them."""
        group = self._groups.find(request.group_id)
        if group is None:
            return None
        group.check_offset_fetch(request.member_id, request.member_epoch)
        return self._offsets.topics(request.group_id)

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
        for _ in self.delete_group_in_steps(group_id, out):
            continue

    def delete_group_in_steps(self, group_id: str, out: Result[Any]) -> Steps:
        """The same for a group with very many offsets."""
        group = self._groups.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_delete()
        pace = EstimatedPace()
        for topic, partition in self._offsets.partitions(group_id):
            out.records.append(group_records.offset_tombstone(group_id, topic, partition))
            if pace.spent(TOMBSTONE_US):
                yield
        self._counters.offset_deletions += len(out.records)
        out.records.extend(group.tombstones())

    def forget_partitions(self, deleted: Mapping[str, Collection[int]], out: Result[Any], pace: EstimatedPace) -> Steps:
        """Delete the committed offsets of deleted topics (topic -> its partitions)."""
        for group_id in dict.fromkeys((*self._offsets.group_ids(), *self._offsets.pending_group_ids())):
            if pace.spent(EXAMINED_US):
                yield
            for topic, partition in self._offsets.partitions_of(group_id, deleted):
                if partition in deleted[topic]:
                    out.records.append(group_records.offset_tombstone(group_id, topic, partition))
                    if pace.spent(TOMBSTONE_US):
                        yield

    # -- retention -----------------------------------------------------------------------------------------------------

    def expire(self, groups: Iterable[Group], out: Result[Any], now: Instant) -> Steps:
        """Delete committed offsets past their retention, and groups that are empty and without committed offsets."""
        pace = EstimatedPace()
        for group in groups:
            if not self._groups.holds(group) or not group.expires:
                continue
            nothing_left = yield from self._expire_group(group, out, now, pace)
            if nothing_left and group.is_empty:
                out.records.extend(group.tombstones())

    def _expire_group(
        self, group: Group, out: Result[Any], now: Instant, pace: EstimatedPace
    ) -> Generator[None, None, bool]:
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
            if pace.spent(EXAMINED_US):
                yield
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
                if pace.spent(TOMBSTONE_US):
                    yield
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


def _ordered(topics: Iterable[str], pace: EstimatedPace) -> Generator[None, None, list[str]]:
    """The names of very many topics in Kafka's order."""
    hashes: dict[str, int] = {}
    for name in topics:
        hashes[name] = string_hash(name)
        if pace.spent(HASHED_US):
            yield
    if pace.spent(len(hashes)):
        yield
    return timeline_map_order_of_hashes(hashes)


def _fetched(
    known: Mapping[int, CommittedOffset],
    topic: str,
    topic_id: bytes,
    indexes: Iterable[int],
    is_pending: Callable[[str, int], bool] | None,
) -> list[OffsetFetchResponsePartitions]:
    """The offsets of some partitions of a topic; ``is_pending`` says which of them are not stable."""
    partitions = []
    for index in indexes:
        committed = known.get(index)
        if is_pending is not None and is_pending(topic, index):
            partitions.append(_without_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif committed is None or _of_another_topic(committed, topic_id):
            partitions.append(_without_offset(index, ErrorCode.NONE))
        else:
            partitions.append(_with_offset(index, committed))
    return partitions


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
