"""The state machine of one ``__consumer_offsets`` partition: its groups, committed offsets and timers.

Each operation takes an `Instant` and returns a `Result`. `apply` changes the state from a record, in operation and when
the log is loaded. Parked requests and timers are soft state, lost when this broker no longer leads the partition
(`unload`). `runtime.runtime` runs the shard on its log. The operations of consumer groups (KIP-848) are in
`consumer.shard`, those of streams groups (KIP-1071) in `streams.shard`, which is imported with the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.describe_groups_response import DescribedGroup
from kwire.codec.messages.group_metadata_key import GroupMetadataKey
from kwire.codec.messages.group_metadata_value import GroupMetadataValue
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.messages.join_group_request import JoinGroupRequest
from kwire.codec.messages.join_group_response import JoinGroupResponse
from kwire.codec.messages.leave_group_request import LeaveGroupRequest
from kwire.codec.messages.leave_group_response import LeaveGroupResponse
from kwire.codec.messages.list_groups_response import ListedGroup
from kwire.codec.messages.offset_commit_request import OffsetCommitRequest
from kwire.codec.messages.offset_commit_response import OffsetCommitResponse
from kwire.codec.messages.offset_commit_value import OffsetCommitValue
from kwire.codec.messages.offset_delete_request import OffsetDeleteRequest
from kwire.codec.messages.offset_delete_response import OffsetDeleteResponse
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup
from kwire.codec.messages.offset_fetch_response import OffsetFetchResponseGroup
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.codec.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kwire.codec.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kwire.codec.records import NO_PRODUCER_ID
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.classic.join import Arrival, JoinGroup, NewId
from kwire.coordinator.groups.classic.protocol import ClassicProtocol
from kwire.coordinator.groups.classic.rebalance import Rebalancer, refusal
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.records import KEYS as CONSUMER_RECORD_TYPES
from kwire.coordinator.groups.consumer.shard import ConsumerShard
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GROUPS_PER_STEP, MANY_OFFSETS, Group, GroupCounters, Groups, GroupSettings
from kwire.coordinator.groups.offsets import transactional as transactional_offsets
from kwire.coordinator.groups.offsets.protocol import OffsetProtocol
from kwire.coordinator.groups.offsets.store import OffsetStore
from kwire.coordinator.groups.records import CommittedOffset
from kwire.coordinator.runtime.java_hash import timeline_map_order
from kwire.coordinator.runtime.long_operations import EstimatedPace, Steps
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result, Waiter
from kwire.coordinator.runtime.timers import Timers

if TYPE_CHECKING:
    from kwire.coordinator.groups.share.shard import ShareShard
    from kwire.coordinator.groups.streams.shard import StreamsShard

_IN_KAFKAS_ORDER_MAX: Final = 200
"""How many groups of a shard are listed in the order in which Kafka would list them: hashing all ids of a large shard
would take too long, and clients do not rely on it."""

SHARE_RECORD_TYPES: Final = (10, 11, 12, 13, 14, 15)
"""The types of the records of share groups (`share.records`)."""

STREAMS_RECORD_TYPES: Final = (17, 19, 20, 21, 22, 23)
"""The types of the records of streams groups (`streams.records`)."""


class GroupShard:
    """See the module. ``new_id`` makes the random part of member ids; ``topics`` are those of the present cluster."""

    def __init__(self, settings: GroupSettings, new_id: NewId, counters: GroupCounters, topics: Topics) -> None:
        self.groups = Groups()
        self.offsets = OffsetStore()
        self.timers = Timers()
        self._settings = settings
        self._counters = counters
        self._rebalancer = Rebalancer(self.groups, self.timers, settings)
        self._join = JoinGroup(self.groups, self._rebalancer, settings, new_id)
        self._classic = ClassicProtocol(self.groups, self._rebalancer, counters)
        self.consumers = ConsumerShard(self.groups, self.timers, settings, new_id, self._rebalancer, topics)
        self._offset_protocol = OffsetProtocol(self.groups, self.offsets, self._classic, settings, counters)
        self._shares: ShareShard | None = None
        self._streams: StreamsShard | None = None
        self._appliers: dict[int, Callable[[bytes | memoryview, bytes | memoryview | None], None]] = {
            **dict.fromkeys(CONSUMER_RECORD_TYPES, self.consumers.apply),
            **dict.fromkeys(SHARE_RECORD_TYPES, self._apply_share),
            **dict.fromkeys(STREAMS_RECORD_TYPES, self._apply_streams),
        }

    @property
    def shares(self) -> ShareShard:
        """The operations of share groups."""
        if self._shares is None:
            from kwire.coordinator.groups.share.shard import ShareShard

            topics = self.consumers.protocol.topics
            self._shares = ShareShard(self.groups, self.timers, self._settings, self._counters, topics)
        return self._shares

    @property
    def streams(self) -> StreamsShard:
        """The operations of streams groups."""
        if self._streams is None:
            from kwire.coordinator.groups.streams.shard import StreamsShard

            topics = self.consumers.protocol.topics
            self._streams = StreamsShard(self.groups, self.timers, self._settings, self._counters, topics)
        return self._streams

    def update_topics(self, topics: Topics, changed: Iterable[str], *, new: bool) -> None:
        """The cluster has changed: ``changed`` are the names of topics that were created, extended or deleted.
        ``new``: some are new."""
        names = list(changed)
        self.consumers.protocol.update_topics(topics, names, new=new)
        if self._shares is not None:
            self._shares.protocol.update_topics(topics, names)
        if self._streams is not None:
            self._streams.protocol.update_topics(topics, names)

    # -- members -------------------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, caller: Caller, waiter: Waiter, now: Instant
    ) -> Result[JoinGroupResponse]:
        """JoinGroup. Parked (no response) while a rebalance collects members."""
        out: Result[JoinGroupResponse] = Result()
        settings = self._settings
        low, high = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            out.response = refusal(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        elif isinstance(group := self.groups.find(request.group_id), ConsumerGroup) and not group.is_empty:
            self.consumers.classic.join(group, request, caller, out, now)
        else:
            self._join(Arrival(request, caller, waiter, out), now)
        return out

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now: Instant) -> Result[SyncGroupResponse]:
        """SyncGroup. Parked (no response) until the leader has sent the assignment."""
        out: Result[SyncGroupResponse] = Result()
        if isinstance(group := self.groups.find(request.group_id), ConsumerGroup):
            self.consumers.classic.sync(group, request, out, now)
        else:
            self._classic.sync(request, waiter, out, now)
        return out

    def heartbeat(self, request: HeartbeatRequest, now: Instant) -> Result[HeartbeatResponse]:
        """Heartbeat."""
        out: Result[HeartbeatResponse] = Result()
        if isinstance(group := self.groups.find(request.group_id), ConsumerGroup):
            self.consumers.classic.heartbeat(group, request, out, now)
        else:
            self._classic.heartbeat(request, out, now)
        return out

    def leave(self, request: LeaveGroupRequest, now: Instant) -> Result[LeaveGroupResponse]:
        """LeaveGroup. Its members are a list, as in version 3 and later."""
        out: Result[LeaveGroupResponse] = Result()
        if isinstance(group := self.groups.find(request.group_id), ConsumerGroup):
            self.consumers.classic.leave(group, request, out, now)
        else:
            self._classic.leave(request, out, now)
        return out

    # -- offsets -------------------------------------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, caller: Caller, now: Instant
    ) -> Result[OffsetCommitResponse]:
        """OffsetCommit. Raises KafkaError if the member may not commit."""
        out: Result[OffsetCommitResponse] = Result()
        self._offset_protocol.commit(request, caller, out, now)
        return out

    def commit_many_offsets(
        self, request: OffsetCommitRequest, caller: Caller, made: Sequence[CoordinatorRecord | None], now: Instant
    ) -> Generator[None, None, Result[OffsetCommitResponse]]:
        """The same in steps; ``made`` are its records, if they have been made before
        (`offsets.protocol.records_of`)."""
        out: Result[OffsetCommitResponse] = Result()
        yield from self._offset_protocol.commit_in_steps(request, caller, out, now, made)
        return out

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, version: int, now: Instant
    ) -> Result[TxnOffsetCommitResponse]:
        """TxnOffsetCommit. The caller appends the records as part of the producer's transaction. Raises KafkaError if
        the member may not commit."""
        self.consumers.check_transactional_commit(request)
        return transactional_offsets.commit(request, version, self.groups, self._settings, now)

    def commit_many_transactional_offsets(
        self, request: TxnOffsetCommitRequest, version: int, made: Sequence[CoordinatorRecord | None], now: Instant
    ) -> Generator[None, None, Result[TxnOffsetCommitResponse]]:
        """The same in steps; ``made`` are its records, if they have been made before (`offsets.transactional`)."""
        pace = EstimatedPace()
        yield from self.consumers.check_transactional_commit_in_steps(request, pace)
        return (
            yield from transactional_offsets.commit_in_steps(
                request, version, self.groups, self._settings, now, made, pace
            )
        )

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Result[OffsetFetchResponseGroup]:
        """OffsetFetch for one group. Raises KafkaError if the member may not read the offsets."""
        return Result(self._offset_protocol.fetch(request, require_stable=require_stable))

    def fetch_many_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Generator[None, None, Result[OffsetFetchResponseGroup]]:
        """The same in steps."""
        return Result((yield from self._offset_protocol.fetch_in_steps(request, require_stable=require_stable)))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
        """OffsetDelete. Raises KafkaError for an error of the whole group."""
        out: Result[OffsetDeleteResponse] = Result()
        self._offset_protocol.delete(request, out)
        return out

    def forget_partitions(
        self, deleted: Mapping[str, Collection[int]], topic_ids: Collection[bytes], pace: EstimatedPace
    ) -> Generator[None, None, Result[None]]:
        """Delete the offsets of deleted topics (topic -> its partitions; the ids), and what share groups note of them,
        in steps. ``pace`` is that of all shards that do so at the same time."""
        out: Result[None] = Result()
        yield from self._offset_protocol.forget_partitions(deleted, out, pace)
        if self._shares is not None:
            out.records += self._shares.forget_topics(topic_ids).records
        return out

    def expire(self, groups: Iterable[Group], now: Instant) -> Generator[None, None, Result[None]]:
        """Delete offsets of some groups past their retention, in steps. The caller runs this for all of them every
        `offsets.retention.check.interval.ms`."""
        out: Result[None] = Result()
        yield from self._offset_protocol.expire(groups, out, now)
        return out

    # -- groups --------------------------------------------------------------------------------------------------------

    def describe(self, group_id: str, version: int) -> Result[DescribedGroup]:
        """DescribeGroups for one group."""
        return Result(self._classic.describe(group_id, version))

    def delete_group(self, group_id: str) -> Result[ErrorCode]:
        """DeleteGroups for one group."""
        out: Result[ErrorCode] = Result(ErrorCode.NONE)
        try:
            self._offset_protocol.delete_group(group_id, out)
        except KafkaError as error:
            out.response = error.code
        return out

    def delete_large_group(self, group_id: str) -> Generator[None, None, Result[ErrorCode]]:
        """The same in steps."""
        out: Result[ErrorCode] = Result(ErrorCode.NONE)
        try:
            yield from self._offset_protocol.delete_group_in_steps(group_id, out)
        except KafkaError as error:
            out.response = error.code
        return out

    def list_groups(
        self, states: frozenset[str], types: frozenset[str], numbers: Iterator[int]
    ) -> Generator[None, None, list[ListedGroup]]:
        """The groups in these states and of these types. Names are in lower case; an empty set means all. ``numbers``
        counts the groups of all shards: after `GROUPS_PER_STEP` of them there is a step. Each group is listed as it is
        then; until its step it may be deleted, or become another one."""
        listed: dict[str, ListedGroup] = {}
        for group_id in [group.group_id for group in self.groups]:
            group = self.groups.find(group_id)
            if (
                group is not None
                and (not states or group.state_name.lower() in states)
                and (not types or group.type_name in types)
            ):
                listed[group_id] = ListedGroup(
                    group_id=group_id,
                    protocol_type=group.listed_protocol_type,
                    group_state=group.state_name,
                    group_type=group.type_name,
                )
            if next(numbers) % GROUPS_PER_STEP == 0:
                yield
        if len(listed) > _IN_KAFKAS_ORDER_MAX:
            return [*listed.values()]
        return [listed[group_id] for group_id in timeline_map_order(listed, len(self.groups))]

    # -- records -------------------------------------------------------------------------------------------------------

    def apply(
        self,
        key: bytes | memoryview,
        value: bytes | memoryview | None,
        offset: int,
        *,
        wall_ms: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Apply a record. ``producer_id`` is -1 unless the record is part of a transaction.

        Raises CodecError for invalid bytes. Records of unknown types are ignored.
        """
        parsed = group_records.parse_key(key)
        if parsed is None:
            applier = self._appliers.get(group_records.record_type(key))
            if applier is not None:
                applier(key, value)
            return
        if isinstance(parsed, GroupMetadataKey):
            self._apply_group(parsed.group, value, wall_ms)
        elif value is None:
            self.offsets.remove(parsed.group, parsed.topic, parsed.partition)
        else:
            self._apply_offset(parsed, value, offset, wall_ms, producer_id)

    def _apply_share(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        self.shares.apply(key, value)

    def _apply_streams(self, key: bytes | memoryview, value: bytes | memoryview | None) -> None:
        self.streams.apply(key, value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> Steps | None:
        """Apply a transaction marker of the log; returns the steps that do so if it ends very many offsets."""
        if self.offsets.has_more_pending(producer_id, MANY_OFFSETS):
            return self.offsets.end_transaction_in_steps(producer_id, committed=committed)
        self.offsets.end_transaction(producer_id, committed=committed)
        return None

    def _apply_group(self, group_id: str, value: bytes | memoryview | None, wall_ms: int) -> None:
        if value is None:
            removed = self.groups.remove(group_id)
            if isinstance(removed, ClassicGroup):
                self._rebalancer.forget(removed)
            elif removed is not None:  # a stale tombstone: a group of the other type has replaced the classic one
                self.groups.put(removed)
            return
        self._classic_group(group_id, wall_ms).apply_metadata(group_records.parse_value(GroupMetadataValue, value))

    def _apply_offset(self, key: Any, value: bytes | memoryview, offset: int, wall_ms: int, producer_id: int) -> None:
        if self.groups.find(key.group) is None:  # no member ever joined: a group that only holds offsets
            self.groups.put(ClassicGroup(key.group, wall_ms))
        written: OffsetCommitValue = group_records.parse_value(OffsetCommitValue, value)
        committed = CommittedOffset(
            offset=written.offset,
            leader_epoch=written.leader_epoch,
            metadata=written.metadata,
            commit_ms=written.commit_timestamp,
            expire_ms=written.expire_timestamp,
            topic_id=written.topic_id,
            record_offset=offset,
        )
        if producer_id == NO_PRODUCER_ID:
            self.offsets.put(key.group, key.topic, key.partition, committed)
        else:
            self.offsets.put_pending(producer_id, key.group, key.topic, key.partition, committed)

    def _classic_group(self, group_id: str, wall_ms: int) -> ClassicGroup:
        group = self.groups.find(group_id)
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(group_id, wall_ms)
            self.groups.put(group)
        return group

    # -- leadership ----------------------------------------------------------------------------------------------------

    def loaded(self, now: Instant) -> Result[None]:
        """The log is loaded: start the sessions of all members. Groups above `group.max.size` rebalance, as do groups
        that were downgraded from the consumer protocol and have not rebalanced since."""
        out: Result[None] = Result()
        self.consumers.protocol.loaded(now)
        if self._shares is not None:
            self._shares.protocol.loaded(now)
        if self._streams is not None:
            self._streams.protocol.loaded(now)
        for group in self.groups.snapshot():
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                self._rebalancer.restart_session(group, member.member_id, member.session_timeout_ms, now)
            if group.is_just_downgraded or len(group.members) > self._settings.group_max_size:
                self._rebalancer.prepare(group, out, now)
        return out

    def unload(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Result[None]:
        """This broker no longer leads the partition: answer all parked requests with an error, stop all timers."""
        out: Result[None] = Result()
        for group in self.groups.snapshot():
            if isinstance(group, ClassicGroup):
                for member_id in list(group.members):
                    self._rebalancer.fail_parked(group, member_id, out, "", error)
        self.timers.clear()
        return out
