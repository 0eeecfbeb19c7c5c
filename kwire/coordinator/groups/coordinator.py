"""The group coordinator that handlers call: finds the shard of a group and runs operations on it.

Every operation returns its response, or a future of the response if the request is parked or its records have to be
committed first. It raises KafkaError if the coordinator cannot serve the request: COORDINATOR_NOT_AVAILABLE (the broker
shuts down), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID. The operations themselves are in
`groups.shard`, which is imported for the first partition that this broker leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.cluster.store.keys import ConfigResource
from kwire.coordinator.groups.group import (
    CONSUMER_STATES,
    GROUPS_PER_STEP,
    MANY_OFFSETS,
    SHARE_STATES,
    STREAMS_STATES,
    GroupCounters,
    GroupState,
)
from kwire.coordinator.runtime.java_hash import partition_for, partitions_order
from kwire.coordinator.runtime.long_operations import EstimatedPace, Turns
from kwire.coordinator.runtime.machine import Caller, CoordinatorRecord, Instant, Result
from kwire.coordinator.runtime.runtime import LogSettings, Phase, Runtime

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import ClusterImage, Delta, MetadataCache
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.codec.messages.consumer_group_describe_response import DescribedGroup as ConsumerDescribedGroup
    from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from kwire.codec.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
    from kwire.codec.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from kwire.codec.messages.describe_groups_response import DescribedGroup
    from kwire.codec.messages.heartbeat_request import HeartbeatRequest
    from kwire.codec.messages.heartbeat_response import HeartbeatResponse
    from kwire.codec.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from kwire.codec.messages.join_group_request import JoinGroupRequest
    from kwire.codec.messages.join_group_response import JoinGroupResponse
    from kwire.codec.messages.leave_group_request import LeaveGroupRequest
    from kwire.codec.messages.leave_group_response import LeaveGroupResponse
    from kwire.codec.messages.list_groups_response import ListedGroup
    from kwire.codec.messages.offset_commit_request import OffsetCommitRequest
    from kwire.codec.messages.offset_commit_response import OffsetCommitResponse
    from kwire.codec.messages.offset_delete_request import OffsetDeleteRequest
    from kwire.codec.messages.offset_delete_response import OffsetDeleteResponse
    from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup
    from kwire.codec.messages.offset_fetch_response import OffsetFetchResponseGroup
    from kwire.codec.messages.share_group_describe_response import DescribedGroup as ShareDescribedGroup
    from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
    from kwire.codec.messages.streams_group_describe_response import DescribedGroup as StreamsDescribedGroup
    from kwire.codec.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
    from kwire.codec.messages.sync_group_request import SyncGroupRequest
    from kwire.codec.messages.sync_group_response import SyncGroupResponse
    from kwire.codec.messages.txn_offset_commit_request import TxnOffsetCommitRequest
    from kwire.codec.messages.txn_offset_commit_response import TxnOffsetCommitResponse
    from kwire.coordinator.groups.consumer.topics import Topics
    from kwire.coordinator.groups.shard import GroupShard
    from kwire.coordinator.groups.share.offsets import Forgetting
    from kwire.coordinator.groups.share.protocol import ShareHeartbeat
    from kwire.coordinator.groups.share.states import NamedPartitions, Partitions
    from kwire.coordinator.groups.streams.creations import TopicCreations
    from kwire.coordinator.groups.streams.protocol import StreamsHeartbeat

A = TypeVar("A")


class GroupCoordinator:
    """The shards of all partitions that this broker leads. All methods run on the event loop."""

    def __init__(self, doors: Doors, config: KafkaConfig, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._doors = doors
        self._config = config
        self._replicas = replicas
        self._metadata = metadata
        self._runtimes: dict[int, Runtime[GroupShard]] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._topic_creations: TopicCreations | None = None
        self._turns = Turns()
        self._open = False
        self._counters = GroupCounters()
        self._topic_ids: Collection[bytes] = ()

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Coordinate the partitions that this broker leads, now and later. Returns when the present ones are loaded."""
        self._open = True
        self._replicas.on_leadership(OFFSETS_TOPIC, self._on_leadership)
        self._metadata.add_listener(self._on_image)
        self._schedule_expiry()
        while self._loading:
            await asyncio.gather(*self._loading.values())

    async def close(self) -> None:
        """Accept no more operations, and answer all parked requests."""
        self._open = False
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for runtime in self._runtimes.values():
            runtime.end()
        self._turns.finish()
        tasks = [*self._loading.values(), *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run what no response waits for, until the coordinator is closed."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    @property
    def topic_creations(self) -> TopicCreations:
        """The internal topics that are being created for streams groups."""
        if self._topic_creations is None:
            from kwire.coordinator.groups.streams.creations import TopicCreations

            self._topic_creations = TopicCreations()
        return self._topic_creations

    def _on_leadership(self, index: int, partition: Partition | None) -> None:
        former = self._runtimes.pop(index, None)
        if former is not None:
            former.end()
        task = self._loading.pop(index, None)
        if task is not None:
            task.cancel()
        if partition is None or not self._open:
            return
        config = self._config
        settings = LogSettings(config.offsets_commit_timeout_ms, config.offsets_topic_compression_codec)
        runtime = self._runtimes[index] = Runtime(self._new_shard(), partition, self._doors, settings, self._turns)
        if runtime.is_empty_log:
            runtime.begin()
        else:
            task = asyncio.get_running_loop().create_task(runtime.load(), name=f"load {OFFSETS_TOPIC}-{index}")
            self._loading[index] = task
            task.add_done_callback(partial(self._loaded, index))

    def _new_shard(self) -> GroupShard:
        from kwire.coordinator.groups.shard import GroupShard

        return GroupShard(self._config, self._new_id, self._counters, _topics(self._metadata.image))

    def _loaded(self, index: int, task: asyncio.Task[None]) -> None:
        if self._loading.get(index) is task:
            del self._loading[index]

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        """The cluster has changed: update the topics of consumer groups, and delete the offsets of deleted topics."""
        changed = [*delta.changed, *(topic.name for topic in delta.deleted)]
        new = any(name in image.topics and image.topics[name].id not in self._topic_ids for name in delta.changed)
        self._topic_ids = image.topics_by_id.keys()
        if not self._runtimes:
            return
        topics = _topics(image)
        for runtime in self._runtimes.values():
            runtime.shard.update_topics(topics, changed, new=new)
        if not delta.deleted:
            return
        gone = {topic.name: frozenset(range(len(topic.partitions))) for topic in delta.deleted}
        ids = {topic.id for topic in delta.deleted}
        pace = EstimatedPace()
        for runtime in self._active():
            runtime.write_in_turns(lambda _, shard=runtime.shard: shard.forget_partitions(gone, ids, pace))  # type: ignore[misc]

    def _schedule_expiry(self) -> None:
        interval_s = self._config.offsets_retention_check_interval_ms / 1000
        self._expiry = asyncio.get_running_loop().call_later(interval_s, self._expire)

    def _expire(self) -> None:
        self.expire_offsets()
        self._schedule_expiry()

    def expire_offsets(self) -> None:
        """Begin to delete the offsets that are past their retention."""
        self.run_in_background(self._expire_in_slices(), "expire offsets")

    async def _expire_in_slices(self) -> None:
        """`GROUPS_PER_STEP` groups in a turn. What a group has become until its turn counts then."""
        for runtime in self._active():
            groups = list(runtime.shard.groups)
            for start in range(0, len(groups), GROUPS_PER_STEP):
                part = groups[start : start + GROUPS_PER_STEP]
                await runtime.write_in_turns(partial(runtime.shard.expire, part))
                await asyncio.sleep(0)

    def _active(self) -> list[Runtime[GroupShard]]:
        return [runtime for runtime in self._runtimes.values() if runtime.phase is Phase.ACTIVE]

    def _new_id(self) -> str:
        """A random UUID in its usual text form."""
        raw = bytearray(self._doors.random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    # -- finding the shard ---------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int | None:
        """The partition of `OFFSETS_TOPIC` that a group belongs to, or None if the topic does not exist."""
        topic = self._metadata.image.topics.get(OFFSETS_TOPIC)
        return None if topic is None else partition_for(group_id, len(topic.partitions))

    def by_partition(self, group_ids: Iterable[str]) -> list[str]:
        """Group ids in the order in which Kafka responds to a request about several groups: one partition of
        `OFFSETS_TOPIC` after the other."""
        by_index: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_index.setdefault(self.partition_of(group_id) or 0, []).append(group_id)
        return [group_id for index in partitions_order(OFFSETS_TOPIC, by_index) for group_id in by_index[index]]

    def _runtime(self, group_id: str, *, may_be_empty: bool) -> Runtime[GroupShard]:
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group_id and not may_be_empty:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        index = self.partition_of(group_id)
        runtime = None if index is None else self._runtimes.get(index)
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return runtime

    def _perform(
        self, group_id: str, operation: Callable[[GroupShard, Instant], Result[A]], *, may_be_empty: bool = True
    ) -> A | asyncio.Future[A]:
        runtime = self._runtime(group_id, may_be_empty=may_be_empty)
        return runtime.perform(partial(operation, runtime.shard))

    # -- members -------------------------------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """JoinGroup."""
        runtime = self._runtime(request.group_id, may_be_empty=False)
        return runtime.park(lambda waiter, now: runtime.shard.join(request, caller, waiter, now))

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """SyncGroup."""
        runtime = self._runtime(request.group_id, may_be_empty=False)
        return runtime.park(lambda waiter, now: runtime.shard.sync(request, waiter, now))

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
        """Heartbeat."""
        return self._perform(request.group_id, lambda shard, now: shard.heartbeat(request, now), may_be_empty=False)

    def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
        """LeaveGroup. Its members are a list, as in version 3 and later."""
        return self._perform(request.group_id, lambda shard, now: shard.leave(request, now), may_be_empty=False)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat. Raises KafkaError with a message for the client."""
        from kwire.coordinator.groups.consumer.protocol import check_request

        check_request(request, caller.api_version, self._config)
        return self._perform(
            request.group_id, lambda shard, now: shard.consumers.heartbeat(request, caller, now), may_be_empty=False
        )

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller
    ) -> ShareHeartbeat | asyncio.Future[ShareHeartbeat]:
        """ShareGroupHeartbeat. Raises KafkaError with a message for the client."""
        from kwire.coordinator.groups.share.protocol import check_request

        check_request(request)
        return self._perform(
            request.group_id, lambda shard, now: shard.shares.heartbeat(request, caller, now), may_be_empty=False
        )

    def share_partitions_initialized(
        self, group_id: str, known: Partitions, failed: Partitions
    ) -> bool | asyncio.Future[bool]:
        """The share coordinators know some partitions of a group; others could not be initialised."""
        return self._perform(
            group_id, lambda shard, _: shard.shares.initialized(group_id, known, failed), may_be_empty=False
        )

    def is_share_group(self, group_id: str) -> bool:
        """Whether this broker coordinates such a share group."""
        try:
            group = self._runtime(group_id, may_be_empty=True).shard.groups.find(group_id)
        except KafkaError:
            return False
        return group is not None and group.type_name == "share"

    def begin_share_deletion(
        self, group_id: str
    ) -> DeleteShareGroupStateRequest | asyncio.Future[DeleteShareGroupStateRequest]:
        """The request by which the share coordinators forget a share group, before it is deleted."""
        return self._perform(group_id, lambda shard, _: shard.shares.begin_deletion(group_id), may_be_empty=False)

    def share_offsets(
        self, group_id: str
    ) -> Mapping[bytes, NamedPartitions] | asyncio.Future[Mapping[bytes, NamedPartitions]]:
        """The partitions of a share group that have offsets."""
        return self._perform(group_id, lambda shard, _: Result(shard.shares.offsets.initialized(group_id)))

    def alter_share_offsets(
        self, group_id: str, offsets: Mapping[str, Sequence[tuple[int, int]]]
    ) -> InitializeShareGroupStateRequest | asyncio.Future[InitializeShareGroupStateRequest]:
        """The request by which the share coordinators begin a share group again at these offsets."""
        return self._perform(
            group_id, lambda shard, _: shard.shares.alter_offsets(group_id, offsets), may_be_empty=False
        )

    def forget_share_offsets(self, group_id: str, names: Collection[str]) -> Forgetting | asyncio.Future[Forgetting]:
        """The request by which the share coordinators forget topics of a share group."""
        return self._perform(
            group_id, lambda shard, _: shard.shares.forget_offsets(group_id, names), may_be_empty=False
        )

    def share_offsets_forgotten(self, group_id: str, topics: Collection[bytes]) -> bool | asyncio.Future[bool]:
        """The share coordinators have forgotten topics of a share group."""
        return self._perform(
            group_id, lambda shard, _: shard.shares.offsets_forgotten(group_id, topics), may_be_empty=False
        )

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: Caller
    ) -> StreamsHeartbeat | asyncio.Future[StreamsHeartbeat]:
        """StreamsGroupHeartbeat. Raises KafkaError with a message for the client."""
        from kwire.coordinator.groups.streams.checks import check_request

        check_request(request)
        return self._perform(
            request.group_id, lambda shard, now: shard.streams.heartbeat(request, caller, now), may_be_empty=False
        )

    # -- offsets -------------------------------------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, caller: Caller
    ) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
        """OffsetCommit. All topics exist; each has its name and id. Raises KafkaError for an error of all
        partitions."""
        return self._perform(request.group_id, lambda shard, now: shard.commit_offsets(request, caller, now))

    def commit_many_offsets(
        self, request: OffsetCommitRequest, caller: Caller, made: Sequence[CoordinatorRecord | None]
    ) -> asyncio.Future[OffsetCommitResponse]:
        """The same in several turns of the event loop. ``made``: what `commit_records` has returned, or nothing."""
        runtime = self._runtime(request.group_id, may_be_empty=True)
        return runtime.perform_in_turns(partial(runtime.shard.commit_many_offsets, request, caller, made))

    def commit_records(self, request: OffsetCommitRequest) -> Generator[None, None, list[CoordinatorRecord | None]]:
        """The records of an OffsetCommit, made in steps before it: they are most of the work."""
        from kwire.coordinator.groups.offsets.protocol import records_of

        return records_of(request, self._doors.clock.time_ms(), self._config.offset_metadata_max_bytes)

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, version: int, is_open: Callable[[], bool]
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        """TxnOffsetCommit. All topics exist, and the group's partition of `OFFSETS_TOPIC` is part of the producer's
        transaction, as ``is_open`` says once more if the commit has to wait. Raises KafkaError for an error of all
        partitions."""
        runtime = self._runtime(request.group_id, may_be_empty=False)
        waits = runtime.is_held

        def commit(now: Instant) -> Result[TxnOffsetCommitResponse]:
            if waits:
                _require_open(is_open)
            return runtime.shard.commit_transactional_offsets(request, version, now)

        return runtime.perform(commit, (request.producer_id, request.producer_epoch))

    def commit_many_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        made: Sequence[CoordinatorRecord | None],
        is_open: Callable[[], bool],
    ) -> asyncio.Future[TxnOffsetCommitResponse]:
        """The same in several turns of the event loop. ``made``: what `transactional_records` has returned, or
        nothing."""
        runtime = self._runtime(request.group_id, may_be_empty=False)

        def commit(now: Instant) -> Generator[None, None, Result[TxnOffsetCommitResponse]]:
            _require_open(is_open)
            return runtime.shard.commit_many_transactional_offsets(request, version, made, now)

        return runtime.perform_in_turns(commit, (request.producer_id, request.producer_epoch))

    def transactional_records(
        self, request: TxnOffsetCommitRequest
    ) -> Generator[None, None, list[CoordinatorRecord | None]]:
        """The records of a TxnOffsetCommit, made in steps before it."""
        from kwire.coordinator.groups.offsets.transactional import records_of

        return records_of(request, self._doors.clock.time_ms(), self._config.offset_metadata_max_bytes)

    def write_marker(
        self, index: int, producer: tuple[int, int], *, commit: bool, coordinator_epoch: int
    ) -> asyncio.Future[None] | None:
        """Append the marker that ends a producer's transaction to one partition of `OFFSETS_TOPIC`. The transaction's
        offsets are committed or dropped from then on. Returns the future of the marker's commit, or None if it is
        committed. Raises KafkaError: NOT_COORDINATOR, or an error of the log."""
        runtime = self._runtimes.get(index)
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return runtime.write_marker(producer, commit=commit, coordinator_epoch=coordinator_epoch)

    def count_offsets(self, group_id: str) -> int:
        """How many committed offsets a group has; 0 if this broker does not coordinate it."""
        index = self.partition_of(group_id)
        runtime = None if index is None else self._runtimes.get(index)
        return 0 if runtime is None else sum(map(len, runtime.shard.offsets.topics(group_id).values()))

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup | asyncio.Future[OffsetFetchResponseGroup]:
        """OffsetFetch for one group, topics by name. Raises KafkaError for an error of the group."""
        runtime = self._runtime(request.group_id, may_be_empty=True)
        if request.topics is None:
            is_large = runtime.is_held or runtime.shard.offsets.has_more(request.group_id, MANY_OFFSETS)
        else:
            is_large = sum(len(topic.partition_indexes) for topic in request.topics) > MANY_OFFSETS
        shard = runtime.shard
        if is_large:
            return runtime.perform_in_turns(lambda _: shard.fetch_many_offsets(request, require_stable=require_stable))
        return runtime.perform(lambda _: shard.fetch_offsets(request, require_stable=require_stable))

    def delete_offsets(
        self, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
        """OffsetDelete. All topics exist. Raises KafkaError for an error of the group."""
        return self._perform(request.group_id, lambda shard, _: shard.delete_offsets(request), may_be_empty=False)

    # -- groups --------------------------------------------------------------------------------------------------------

    def describe(self, group_id: str, version: int) -> DescribedGroup | asyncio.Future[DescribedGroup]:
        """DescribeGroups for one group."""
        return self._perform(group_id, lambda shard, _: shard.describe(group_id, version))

    def describe_consumer_group(self, group_id: str) -> ConsumerDescribedGroup | asyncio.Future[ConsumerDescribedGroup]:
        """ConsumerGroupDescribe for one group. Raises GROUP_ID_NOT_FOUND."""
        return self._perform(group_id, lambda shard, _: shard.consumers.describe(group_id), may_be_empty=False)

    def describe_share_group(self, group_id: str) -> ShareDescribedGroup | asyncio.Future[ShareDescribedGroup]:
        """ShareGroupDescribe for one group. Raises KafkaError with a message for the client."""
        return self._perform(group_id, lambda shard, _: shard.shares.describe(group_id), may_be_empty=False)

    def describe_streams_group(self, group_id: str) -> StreamsDescribedGroup | asyncio.Future[StreamsDescribedGroup]:
        """StreamsGroupDescribe for one group. Raises GROUP_ID_NOT_FOUND."""
        return self._perform(group_id, lambda shard, _: shard.streams.describe(group_id), may_be_empty=False)

    def delete_group(self, group_id: str) -> ErrorCode | asyncio.Future[ErrorCode]:
        """DeleteGroups for one group."""
        runtime = self._runtime(group_id, may_be_empty=True)
        if runtime.is_held or runtime.shard.offsets.has_more(group_id, MANY_OFFSETS):
            return runtime.perform_in_turns(lambda _: runtime.shard.delete_large_group(group_id))
        return runtime.perform(lambda _: runtime.shard.delete_group(group_id))

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> Generator[None, None, list[ListedGroup]]:
        """The groups that this broker coordinates, in these states and of these types (lower case; empty: all), in
        steps. The groups of a shard that moves away meanwhile are left out.

        Raises COORDINATOR_LOAD_IN_PROGRESS while one of its shards is being loaded.
        """
        listed: list[ListedGroup] = []
        numbers = count(1)
        for index in partitions_order(OFFSETS_TOPIC, self._runtimes):
            runtime = self._runtimes.get(index)
            if runtime is not None and runtime.phase is Phase.LOADING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if runtime is not None and runtime.phase is Phase.ACTIVE:
                groups = yield from runtime.shard.list_groups(states, types, numbers)
                if runtime.phase is Phase.ACTIVE:
                    listed += groups
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return listed

    # -- metrics -------------------------------------------------------------------------------------------------------

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics of the group coordinator. Values are computed when a metric is read."""
        manager = "kafka.coordinator.group:type=GroupMetadataManager,name="
        metrics.gauge(manager + "NumOffsets", lambda: sum(len(one.shard.offsets) for one in self._active()))
        metrics.gauge(manager + "NumGroups", lambda: sum(len(one.shard.groups) for one in self._active()))
        for state in GroupState:
            metrics.gauge(f"{manager}NumGroups{state.value}", partial(self._count_groups, "classic", state.value))
        server, counters = "kafka.server:type=group-coordinator-metrics,name=", self._counters
        metrics.gauge(server + "group-count,protocol=classic", lambda: self._count_groups("classic", None))
        metrics.gauge(server + "group-count,protocol=consumer", lambda: self._count_groups("consumer", None))
        for name in CONSUMER_STATES:
            gauge = f"{server}consumer-group-count,state={name.lower()}"
            metrics.gauge(gauge, partial(self._count_groups, "consumer", name))
        metrics.gauge(server + "group-count,protocol=share", lambda: self._count_groups("share", None))
        for name in SHARE_STATES:
            metrics.gauge(f"{server}share-group-count,state={name.lower()}", partial(self._count_groups, "share", name))
        metrics.gauge(server + "group-count,protocol=streams", lambda: self._count_groups("streams", None))
        for name in STREAMS_STATES:
            gauge = f"{server}streams-group-count,state={name.lower()}"
            metrics.gauge(gauge, partial(self._count_groups, "streams", name))
        metrics.gauge(server + "share-group-rebalance-count", lambda: counters.share_rebalances)
        metrics.gauge(server + "streams-group-rebalance-count", lambda: counters.streams_rebalances)
        metrics.gauge(server + "offset-commit-count", lambda: counters.offset_commits)
        metrics.gauge(server + "offset-deletion-count", lambda: counters.offset_deletions)
        metrics.gauge(server + "offset-expiration-count", lambda: counters.offset_expirations)
        metrics.gauge(server + "group-completed-rebalance-count", lambda: counters.completed_rebalances)
        for phase, state_name in ((Phase.LOADING, "loading"), (Phase.ACTIVE, "active"), (Phase.OVER, "failed")):
            metrics.gauge(f"{server}num-partitions,state={state_name}", partial(self._count_partitions, phase))

    def _count_groups(self, type_name: str, state: str | None) -> int:
        """Groups of one type in one state, or in any."""
        return sum(
            group.type_name == type_name and state in (None, group.state_name)
            for runtime in self._active()
            for group in runtime.shard.groups
        )

    def _count_partitions(self, phase: Phase) -> int:
        return sum(runtime.phase is phase for runtime in self._runtimes.values())

    def committed(self) -> Iterator[tuple[str, int, list[tuple[str, int, int]]]]:
        """Each group with its number of members and the committed offsets (topic, partition, offset), for metrics. The
        groups may change between two of them."""
        for runtime in self._active():
            for group in list(runtime.shard.groups):
                offsets = runtime.shard.offsets.walk(group.group_id)
                yield (
                    group.group_id,
                    group.counts()["members"],
                    [(topic, index, one.offset) for topic, index, one in offsets],
                )

    # -- diagnostic dump -----------------------------------------------------------------------------------------------

    def dump(self) -> Iterator[dict[str, Any]]:
        """A summary of each group, for the diagnostic dump on SIGUSR1."""
        for index in sorted(self._runtimes):
            shard = self._runtimes[index].shard
            for group in shard.groups:
                facts: dict[str, Any] = {"group": group.group_id, "type": group.type_name, "state": group.state_name}
                yield {
                    **facts,
                    **group.counts(),
                    "partition": index,
                    "offsets": sum(1 for _ in shard.offsets.walk(group.group_id)),
                }


def _require_open(is_open: Callable[[], bool]) -> None:
    """The end of a transaction may have come before this commit, whose offsets nothing would ever end."""
    if not is_open():
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _topics(image: ClusterImage) -> Topics:
    """The topics and group properties of one snapshot of the cluster."""
    from kwire.coordinator.groups.consumer.topics import Topics

    return Topics(image, partial(image.config, ConfigResource.GROUP))
